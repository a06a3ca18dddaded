//! Files that are written and never synced: what a log costs without waiting for the disk.

use std::io;
use std::sync::Arc;

use ledger::{Files, StorageFile};

pub struct Unsynced(pub Arc<dyn Files>);

struct UnsyncedFile(Box<dyn StorageFile>);

impl Files for Unsynced {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.0.list(folder)
    }

    fn create_folder(&self, folder: &str) -> io::Result<()> {
        self.0.create_folder(folder)
    }

    fn sync_folder(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(UnsyncedFile(self.0.create(path)?)))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(UnsyncedFile(self.0.open(path)?)))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.0.remove(path)
    }

    fn salt(&self) -> u64 {
        self.0.salt()
    }
}

impl StorageFile for UnsyncedFile {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.set_size(size)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
