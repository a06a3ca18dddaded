package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"sort"
	"strconv"
	"strings"
)

// Votes: docs/votes.md, sections 1 to 3 and 6.

// member has a key or a signature.
type member struct {
	number uint64
	has    []byte
}

// readMembers reads those that ascend.
func readMembers(r *reader, bytes uint64) (members []member, ok bool) {
	for count := r.number(2); count > 0 && !r.cut; count-- {
		next := member{r.number(8), r.take(bytes)}
		if len(members) > 0 && members[len(members)-1].number >= next.number {
			return nil, false
		}
		members = append(members, next)
	}
	return members, !r.cut
}

// electors: whose votes count, and how many are needed.
type electors struct {
	votes   uint64
	members []member
	holds   bool
	hash    []byte
}

func electorsOf(votes, liars uint64, members []member) electors {
	count := uint64(len(members))
	data := binary.BigEndian.AppendUint16(nil, uint16(votes))
	data = binary.BigEndian.AppendUint16(data, uint16(liars))
	data = binary.BigEndian.AppendUint16(data, uint16(count))
	for _, member := range members {
		data = append(binary.BigEndian.AppendUint64(data, member.number), member.has...)
	}
	holds := votes <= count && liars <= count && 2*votes > count+liars
	return electors{votes, members, holds, tagged("tally elect v1\x00\x00", data)}
}

type certificate struct {
	ledgerID, resultHash, electors []byte
	height                         uint64
	votes                          []member
}

func readCertificate(r *reader) (c certificate, err error) {
	version := r.number(1)
	c.ledgerID, c.height = r.take(16), r.number(8)
	c.resultHash, c.electors = r.take(32), r.take(32)
	votes, ok := readMembers(r, 64)
	c.votes = votes
	failed(&err, version == 1 && ok && r.whole(), malformed)
	return c, err
}

// isBy says whether these electors have made it, also for a block that is for others.
func (c certificate) isBy(ledger []byte, by electors) bool {
	holds := bytes.Equal(c.ledgerID, ledger) && uint64(len(c.votes)) >= by.votes
	for at := 0; holds && at < len(c.votes); at++ {
		vote := c.votes[at]
		message := append([]byte("tally vote v1\x00\x00\x00"), ledger...)
		message = binary.BigEndian.AppendUint64(message, vote.number)
		message = binary.BigEndian.AppendUint64(message, c.height)
		message = append(append(message, c.resultHash...), c.electors...)
		holds = false
		for _, member := range by.members {
			if member.number == vote.number {
				holds = ed25519.Verify(member.has, message, vote.has)
			}
		}
	}
	return holds
}

// succession: who follows, by the word of those before.
type succession struct {
	next        electors
	certificate certificate
}

func readSuccession(data []byte) (s succession, err error) {
	r := reader{data: data}
	votes, liars := r.number(2), r.number(2)
	members, ok := readMembers(&r, 32)
	if !ok {
		return s, malformed
	}
	s.next = electorsOf(votes, liars, members)
	s.certificate, err = readCertificate(&r)
	return s, err
}

func (s succession) holds(ledger []byte, before electors) bool {
	return s.next.holds && bytes.Equal(s.certificate.electors, s.next.hash) &&
		!bytes.Equal(s.next.hash, before.hash) && s.certificate.isBy(ledger, before)
}

// votes are an anchor that leads to the first block.
type votes struct {
	firstBlock  []byte
	successions []succession
	links       []header
	certificate certificate
}

func readVotes(r *reader) (v votes, err error) {
	v.firstBlock = r.text()
	if len(v.firstBlock) < 174 {
		return v, malformed
	}
	_, err = orderHeader(v.firstBlock[:174])
	for count := r.number(4); count > 0 && !r.cut && err == nil; count-- {
		var next succession
		next, err = readSuccession(r.text())
		v.successions = append(v.successions, next)
	}
	if err == nil {
		v.links, err = readHeaders(r)
	}
	if err == nil {
		v.certificate, err = readCertificate(&reader{data: r.text()})
	}
	return v, err
}

// first says who the electors of a first block are, if it is the trusted one.
func (v votes) first(order order, trusted []byte) (electors, bool) {
	envelope := v.firstBlock[174:]
	isIt := bytes.Equal(order.hash, trusted) && order.height == 0 && order.envelopes == 1 &&
		bytes.Equal(order.envelopesRoot, leafHash(envelope)) &&
		bytes.HasPrefix(envelope, []byte("tally genesis v2"))
	if !isIt {
		return electors{}, false
	}
	r := reader{data: envelope[16:]}
	r.text()
	r.text()
	others := map[string]string{}
	for count := r.number(4); count > 0 && !r.cut; count-- {
		name := string(r.text())
		others[name] = string(r.text())
	}
	var members []member
	for _, text := range strings.Split(others["electors"], ", ") {
		words := strings.Split(text, " ")
		number, err := strconv.ParseUint(words[0], 10, 64)
		if err != nil || len(words) < 2 {
			return electors{}, false
		}
		key, err := hex.DecodeString(words[1])
		if err != nil || len(key) != 32 {
			return electors{}, false
		}
		members = append(members, member{number, key})
	}
	sort.Slice(members, func(a, b int) bool { return members[a].number < members[b].number })
	rule := func(name string, otherwise int) uint64 {
		text, named := others[name]
		if !named {
			return uint64(otherwise)
		}
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return 1 << 16
		}
		return number
	}
	count := len(members)
	found := electorsOf(rule("votes", 2*count/3+1), rule("liars", (count-1)/3), members)
	return found, found.holds && r.whole()
}

func (v votes) check(head header, trusted []byte) error {
	order, err := orderHeader(v.firstBlock[:174])
	if err != nil {
		return err
	}
	electors, ok := v.first(order, trusted)
	if !ok {
		return Refused("first")
	}
	for at, next := range v.successions {
		leadsOn := at == 0 || v.successions[at-1].certificate.height < next.certificate.height
		if !leadsOn || !next.holds(order.ledgerID, electors) {
			return Refused("electors")
		}
		electors = next.next
	}
	isTheirs := bytes.Equal(v.certificate.electors, electors.hash) &&
		v.certificate.isBy(order.ledgerID, electors)
	if !isTheirs {
		return Refused("votes")
	}
	last, err := head.lastOf(v.links)
	isIt := bytes.Equal(last.ledgerID, order.ledgerID) && last.height == v.certificate.height &&
		bytes.Equal(last.hash, v.certificate.resultHash)
	failed(&err, isIt, "head")
	return err
}
