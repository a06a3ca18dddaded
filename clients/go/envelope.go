package main

// Envelopes, docs/order-format.md, section 2: as much of them as tells who has signed one.

import (
	"crypto/ed25519"
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
	add := func(tag, shown string) {
		message := append([]byte(tag), id...)
		r.list(func() {
			key, signature := r.take(32), r.part()
			if !r.cut && len(signature) == 64 && ed25519.Verify(key, message, signature) {
				right = append(right, shown+hex.EncodeToString(key))
			}
		})
	}
	if len(r.data) > 0 {
		add("tally signature1", "")
		add("tally approval 1", "approval:")
	}
	if !r.whole() {
		return nil
	}
	return right
}
