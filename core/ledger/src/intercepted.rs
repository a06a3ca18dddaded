//! Files with something put between them and their user: syncs left out, delayed or refused.
//!
//! An [`Interceptor`] overrides the operations that it is about; all others go through.

use std::io;
use std::sync::Arc;

use crate::files::{Files, Identity, StorageFile};

/// What is done in place of an operation. Each is given what it stands before; paths are those that
/// the user of the files gave.
pub trait Interceptor: Send + Sync {
    fn sync_folder(&self, files: &dyn Files, folder: &str) -> io::Result<()> {
        files.sync_folder(folder)
    }

    fn create(&self, files: &dyn Files, path: &str) -> io::Result<Box<dyn StorageFile>> {
        files.create(path)
    }

    fn remove(&self, files: &dyn Files, path: &str) -> io::Result<()> {
        files.remove(path)
    }

    fn write_at(&self, file: &dyn StorageFile, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_at(bytes, offset)
    }

    fn sync(&self, file: &dyn StorageFile, _path: &str) -> io::Result<()> {
        file.sync()
    }
}

/// Files after an interceptor.
pub struct Intercepted<I> {
    files: Arc<dyn Files>,
    interceptor: Arc<I>,
}

struct InterceptedFile<I> {
    file: Box<dyn StorageFile>,
    path: String,
    interceptor: Arc<I>,
}

impl<I: Interceptor + 'static> Intercepted<I> {
    pub fn new(files: Arc<dyn Files>, interceptor: Arc<I>) -> Self {
        Self { files, interceptor }
    }

    fn wrap(&self, path: &str, file: Box<dyn StorageFile>) -> Box<dyn StorageFile> {
        let (path, interceptor) = (path.to_owned(), Arc::clone(&self.interceptor));
        Box::new(InterceptedFile { file, path, interceptor })
    }
}

impl<I: Interceptor + 'static> Files for Intercepted<I> {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.files.list(folder)
    }

    fn create_folder(&self, folder: &str) -> io::Result<()> {
        self.files.create_folder(folder)
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        self.interceptor.sync_folder(&*self.files, folder)
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.wrap(path, self.interceptor.create(&*self.files, path)?))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.wrap(path, self.files.open(path)?))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.interceptor.remove(&*self.files, path)
    }

    fn salt(&self) -> u64 {
        self.files.salt()
    }
}

impl<I: Interceptor> StorageFile for InterceptedFile<I> {
    fn identity(&self) -> io::Result<Option<Identity>> {
        self.file.identity()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.interceptor.write_at(&*self.file, bytes, offset)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_size(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.interceptor.sync(&*self.file, &self.path)
    }
}
