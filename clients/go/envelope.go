package main

// Envelopes, docs/order-format.md, section 2: as much of them as tells who has signed one.

import (
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
)

func (r *reader) varint() uint64 {
	var number uint64
	for shift := 0; !r.cut; shift += 7 {
		taken := r.take(1)
		if r.cut {
			break
		}
		part := uint64(taken[0] & 0x7f)
		if shift > 63 || part<<shift>>shift != part || taken[0] == 0 && shift > 0 {
			r.cut = true
			break
		}
		number |= part << shift
		if taken[0] < 0x80 {
			break
		}
	}
	return number
}

func (r *reader) part() []byte { return r.take(r.varint()) }

func (r *reader) list(item func()) {
	count := r.varint()
	r.cut = r.cut || count > 64
	for ; count > 0 && !r.cut; count-- {
		item()
	}
}

// signers are the keys whose signatures over an envelope are right, then those whose approvals are;
// none of bytes that are none.
func signers(envelope []byte) []string {
	r := &reader{data: envelope}
	form := r.number(1)
	r.cut = r.cut || form>>3 != 2
	r.take(16)
	r.part()
	if form&1 != 0 {
		r.part()
	} else {
		r.take(16)
		r.varint()
	}
	r.varint()
	r.varint()
	if form&2 != 0 {
		r.list(func() { r.part(); r.part() })
	}
	if form&4 != 0 {
		r.take(16)
	}
	r.part()
	if r.cut {
		return nil
	}
	id := tagged("tally envelope 1", envelope[:len(envelope)-len(r.data)])
	var right []string
	add := func(shown string, isRight func(key, bytes []byte) bool) {
		r.list(func() {
			key, bytes := r.take(32), r.part()
			if !r.cut && isRight(key, bytes) {
				right = append(right, shown+hex.EncodeToString(key))
			}
		})
	}
	if len(r.data) > 0 {
		add("", func(key, signature []byte) bool {
			return isSigned(key, append([]byte("tally signature1"), id...), signature)
		})
		add("approval:", func(key, approval []byte) bool { return isApproved(key, id, approval) })
	}
	if !r.whole() {
		return nil
	}
	return right
}

func isSigned(key, message, signature []byte) bool {
	return len(signature) == 64 && ed25519.Verify(key, message, signature)
}

// isApproved tells whether an approval is right: of this transaction alone, or of a tree that it is
// in.
func isApproved(key, id, approval []byte) bool {
	message := append([]byte("tally approval 1"), id...)
	if len(approval) <= 64 {
		return isSigned(key, message, approval)
	}
	signature, rest := approval[:64], approval[64:]
	if len(rest)%32 != 4 {
		return false
	}
	leaves, index := binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
	var path [][]byte
	for at := 4; at < len(rest); at += 32 {
		path = append(path, rest[at:at+32])
	}
	root := climb(leafHash(message), uint64(index), uint64(leaves), path)
	if root == nil || leaves < 2 || leaves > 1024 {
		return false
	}
	message = append(append([]byte("tally approvals1"), rest[:2]...), root...)
	return isSigned(key, message, signature)
}
