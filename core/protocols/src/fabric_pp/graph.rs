//! The conflict graph of a batch, in bit vectors.
//!
//! There is an edge Ti → Tj if Ti writes a key that Tj reads: then Tj must come first. Two writes
//! of one key make no edge.
//!
//! *Cost.* The paper gives each transaction a bit vector over the batch's keys and compares all
//! pairs: n² times keys / 64 words, 160 million for 1,000 transactions on 10,000 keys. The same
//! edges come from an inverted index: for each key, the readers as a bit vector over
//! *transactions* are or-ed into the row of each writer (and the other way round for the parents).
//! A key with at most [`PAIRS_MAX`] pairs of a writer and a reader costs one step a pair; any other
//! one costs n / 64 words for each of its writers and readers.

/// A bit vector over transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bits(Vec<u64>);

impl Bits {
    pub fn none(count: usize) -> Bits {
        Bits(vec![0; count.div_ceil(64)])
    }

    pub fn all(count: usize) -> Bits {
        let mut bits = Bits::none(count);
        (0..count).for_each(|at| bits.insert(at));
        bits
    }

    pub fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub fn remove(&mut self, at: usize) {
        self.0[at / 64] &= !(1 << (at % 64));
    }

    pub fn contains(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// Its members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        ones(self.0.iter().copied())
    }
}

/// Places of the one-bits of a bit vector, ascending.
fn ones(words: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    words.enumerate().flat_map(|(at, mut word)| {
        std::iter::from_fn(move || {
            let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
            word &= word - 1;
            Some(at * 64 + bit)
        })
    })
}

/// Edges between transactions, by row and by column.
pub struct Graph {
    count: usize,
    /// Words of a row.
    width: usize,
    children: Vec<u64>,
    parents: Vec<u64>,
}

/// Pairs of a writer and a reader of one key beyond which bit vectors are cheaper.
const PAIRS_MAX: usize = 64;

impl Graph {
    fn without_edges(count: usize) -> Graph {
        let width = count.div_ceil(64);
        Graph { count, width, children: vec![0; count * width], parents: vec![0; count * width] }
    }

    /// Transaction i reads the keys `reads[i]` and writes `writes[i]`; keys are small numbers.
    pub fn of<R: AsRef<[u32]>, W: AsRef<[u32]>>(reads: &[R], writes: &[W]) -> Graph {
        assert_eq!(reads.len(), writes.len());
        let mut graph = Graph::without_edges(reads.len());
        let (readers, writers) = (Index::of(reads), Index::of(writes));
        for key in 0..readers.keys().min(writers.keys()) {
            graph.conflict(writers.users(key), readers.users(key));
        }
        for at in 0..graph.count {
            graph.children[at * graph.width + at / 64] &= !(1 << (at % 64));
            graph.parents[at * graph.width + at / 64] &= !(1 << (at % 64));
        }
        graph
    }

    #[cfg(test)]
    pub fn of_edges(count: usize, edges: &[(usize, usize)]) -> Graph {
        let mut graph = Graph::without_edges(count);
        edges.iter().for_each(|&(from, to)| graph.connect(from, to));
        graph
    }

    /// The part of the graph within some transactions, ascending, which are numbered anew.
    pub fn within(&self, transactions: &[usize]) -> Graph {
        let mut members = Bits::none(self.count);
        transactions.iter().for_each(|&at| members.insert(at));
        let mut graph = Graph::without_edges(transactions.len());
        for (from, &at) in transactions.iter().enumerate() {
            for child in self.children(at, &members) {
                graph.connect(from, transactions.partition_point(|&other| other < child));
            }
        }
        graph
    }

    fn connect(&mut self, from: usize, to: usize) {
        self.children[from * self.width + to / 64] |= 1 << (to % 64);
        self.parents[to * self.width + from / 64] |= 1 << (from % 64);
    }

    /// Edges from each writer of a key to each of its readers.
    fn conflict(&mut self, writers: &[u32], readers: &[u32]) {
        if writers.len() * readers.len() <= PAIRS_MAX {
            for &writer in writers {
                readers.iter().for_each(|&reader| self.connect(writer as usize, reader as usize));
            }
            return;
        }
        let width = self.width;
        let into_all = |rows: &[u32], matrix: &mut [u64], members: &[u32]| {
            let mut bits = Bits::none(width * 64);
            members.iter().for_each(|&member| bits.insert(member as usize));
            for &row in rows {
                let row = &mut matrix[row as usize * width..][..width];
                row.iter_mut().zip(bits.words()).for_each(|(word, more)| *word |= more);
            }
        };
        into_all(writers, &mut self.children, readers);
        into_all(readers, &mut self.parents, writers);
    }

    pub fn count(&self) -> usize {
        self.count
    }

    fn row<'g>(&self, matrix: &'g [u64], at: usize) -> &'g [u64] {
        &matrix[at * self.width..][..self.width]
    }

    /// Members of `among` that read what `at` writes, ascending.
    pub fn children<'g>(&'g self, at: usize, among: &'g Bits) -> impl Iterator<Item = usize> + 'g {
        let row = self.row(&self.children, at).iter();
        ones(row.zip(among.words()).map(|(a, b)| a & b))
    }

    /// Members of `among` that write what `at` reads, ascending.
    pub fn parents<'g>(&'g self, at: usize, among: &'g Bits) -> impl Iterator<Item = usize> + 'g {
        let row = self.row(&self.parents, at).iter();
        ones(row.zip(among.words()).map(|(a, b)| a & b))
    }

    /// Edges between members of `among`.
    pub fn edges(&self, among: &Bits) -> u64 {
        let of = |at| -> u64 {
            let row = self.row(&self.children, at).iter().zip(among.words());
            row.map(|(a, b)| u64::from((a & b).count_ones())).sum()
        };
        among.iter().map(of).sum()
    }
}

/// Who uses each key, ascending.
struct Index {
    /// Where each key's users begin; one more than there are keys.
    starts: Vec<u32>,
    users: Vec<u32>,
}

impl Index {
    fn of<K: AsRef<[u32]>>(uses: &[K]) -> Index {
        let all = || uses.iter().flat_map(|keys| keys.as_ref());
        let keys = all().max().map_or(0, |&key| key as usize + 1);
        let mut starts = vec![0u32; keys + 1];
        all().for_each(|&key| starts[key as usize + 1] += 1);
        for key in 0..keys {
            starts[key + 1] += starts[key];
        }
        let mut users = vec![0; starts[keys] as usize];
        let mut next = starts.clone();
        for (user, keys) in (0..).zip(uses) {
            for &key in keys.as_ref() {
                users[next[key as usize] as usize] = user;
                next[key as usize] += 1;
            }
        }
        Index { starts, users }
    }

    fn keys(&self) -> usize {
        self.starts.len() - 1
    }

    fn users(&self, key: usize) -> &[u32] {
        &self.users[self.starts[key] as usize..self.starts[key + 1] as usize]
    }
}
