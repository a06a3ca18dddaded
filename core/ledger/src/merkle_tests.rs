use proptest::prelude::*;

use super::*;
use crate::hash::{from_hex, hash_from_hex};

/// The definition of RFC 9162, section 2.1.1, word by word.
fn naive_root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => Sha256::digest([]).into(),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(split(leaves.len()));
            node_hash(&naive_root(left), &naive_root(right))
        }
    }
}

/// The definition of RFC 9162, section 2.1.3.1.
fn naive_proof(index: usize, leaves: &[Hash]) -> Vec<Hash> {
    if leaves.len() <= 1 {
        return Vec::new();
    }
    let (left, right) = leaves.split_at(split(leaves.len()));
    let (mut proof, sibling) = if index < left.len() {
        (naive_proof(index, left), naive_root(right))
    } else {
        (naive_proof(index - left.len(), right), naive_root(left))
    };
    proof.push(sibling);
    proof
}

/// The largest power of two below `n`.
fn split(n: usize) -> usize {
    n.next_power_of_two() / 2
}

fn numbered(n: usize) -> Vec<Hash> {
    (0..n).map(|i| leaf_hash(&(i as u32).to_be_bytes())).collect()
}

fn root_of_hashes(leaves: &[Hash]) -> Hash {
    let mut builder = MerkleBuilder::new();
    leaves.iter().for_each(|leaf| builder.push_hash(*leaf));
    builder.root()
}

/// The eight leaves and roots that the Certificate Transparency implementations share.
const CT_LEAVES: [&str; 8] = [
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
];
const CT_ROOTS: [&str; 9] = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

/// Index, tree size and path, from the same source.
const CT_PROOFS: &[(usize, usize, &[&str])] = &[
    (0, 1, &[]),
    (
        0,
        8,
        &[
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        5,
        8,
        &[
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (2, 3, &["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
    (
        1,
        5,
        &[
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
];

#[test]
fn certificate_transparency_vectors() {
    let leaves: Vec<Vec<u8>> = CT_LEAVES.iter().map(|hex| from_hex(hex).unwrap()).collect();
    for (n, expected) in CT_ROOTS.iter().enumerate() {
        assert_eq!(root(&leaves[..n]), hash_from_hex(expected).unwrap(), "{n} leaves");
    }
    let hashes: Vec<Hash> = leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
    for (index, size, expected) in CT_PROOFS {
        let expected: Vec<Hash> = expected.iter().map(|hex| hash_from_hex(hex).unwrap()).collect();
        assert_eq!(inclusion_proof(&hashes[..*size], *index).unwrap(), expected);
    }
}

#[test]
fn every_size_and_index_agrees_with_the_definition() {
    let all = numbered(130);
    for n in 0..=130 {
        let leaves = &all[..n];
        let root = root_of_hashes(leaves);
        assert_eq!(root, naive_root(leaves), "{n} leaves");
        let of_all = (0..n).map(|index| naive_proof(index, leaves)).collect();
        assert_eq!(inclusion_proofs(leaves.to_vec()), (root, of_all), "{n} leaves");
        for index in 0..n {
            let proof = inclusion_proof(leaves, index).unwrap();
            assert_eq!(proof, naive_proof(index, leaves), "leaf {index} of {n}");
            assert!(verify_inclusion(leaves[index], index as u64, n as u64, &proof, &root));
        }
        assert_eq!(inclusion_proof(leaves, n), None);
    }
}

proptest! {
    #[test]
    fn streamed_root_is_the_defined_one(leaves in prop::collection::vec(any::<[u8; 4]>(), 0..400)) {
        let hashes: Vec<Hash> = leaves.iter().map(|leaf| leaf_hash(leaf)).collect();
        prop_assert_eq!(root(&leaves), naive_root(&hashes));
    }

    /// A proof proves one leaf, at one place, in one tree.
    #[test]
    fn changed_proofs_are_refused(
        n in 1usize..70,
        pick in any::<prop::sample::Index>(),
        bit in 0usize..256,
    ) {
        let leaves = numbered(n);
        let index = pick.index(n);
        let root = naive_root(&leaves);
        let proof = inclusion_proof(&leaves, index).unwrap();
        let verify = |leaf: Hash, index: usize, proof: &[Hash], root: &Hash| {
            verify_inclusion(leaf, index as u64, n as u64, proof, root)
        };
        let flip = |hash: &mut Hash| hash[bit / 8] ^= 1 << (bit % 8);

        let mut leaf = leaves[index];
        flip(&mut leaf);
        prop_assert!(!verify(leaf, index, &proof, &root));
        for level in 0..proof.len() {
            let mut changed = proof.clone();
            flip(&mut changed[level]);
            prop_assert!(!verify(leaves[index], index, &changed, &root));
            prop_assert!(!verify(leaves[index], index, &proof[..level], &root));
        }
        let mut longer = proof.clone();
        longer.push([0; 32]);
        prop_assert!(!verify(leaves[index], index, &longer, &root));
        for other in (0..=n).filter(|other| *other != index) {
            prop_assert!(!verify(leaves[index], other, &proof, &root));
        }
        let mut wrong = root;
        flip(&mut wrong);
        prop_assert!(!verify(leaves[index], index, &proof, &wrong));
    }
}
