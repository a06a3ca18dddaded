// Command check_proof checks proofs of a ledger without any of the code that made them. It was
// written from docs/proofs.md and the pages that it names alone, with Go's standard library;
// section numbers are those of docs/proofs.md.
//
//	check_proof FILE TRUST     TRUST: a head, 64 hexadecimal digits, a verifier key, or
//	                           "first:" and the hash of the first block's order header
//	check_proof -              lines "TRUST PROOF" in hexadecimal; answers a line to each
//
// It prints what is proven. Exit codes: 0 it holds, 1 it does not, 2 wrong usage or unreadable
// files.
package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Refused is why a proof proves nothing, in one word.
type Refused string

func (why Refused) Error() string { return string(why) }

const malformed = Refused("malformed")

func sha(parts ...[]byte) []byte {
	hash := sha256.New()
	for _, part := range parts {
		hash.Write(part)
	}
	return hash.Sum(nil)
}

func leafHash(data []byte) []byte        { return sha([]byte{0}, data) }
func nodeHash(left, right []byte) []byte { return sha([]byte{1}, left, right) }
func tagged(tag string, d []byte) []byte { return sha([]byte(tag), d) }
func isZero(hash []byte) bool            { return bytes.Equal(hash, make([]byte, 32)) }
func failed(err *error, holds bool, w Refused) {
	if *err == nil && !holds {
		*err = w
	}
}

// reader reads bytes from the front; once some are missing, all that follows is nothing.
type reader struct {
	data []byte
	cut  bool
}

func (r *reader) take(count uint64) []byte {
	if r.cut || count > uint64(len(r.data)) {
		r.cut = true
		return nil
	}
	taken := r.data[:count]
	r.data = r.data[count:]
	return taken
}

func (r *reader) number(bytes uint64) uint64 {
	var number uint64
	for _, b := range r.take(bytes) {
		number = number<<8 | uint64(b)
	}
	return number
}

func (r *reader) text() []byte { return r.take(r.number(4)) }

func (r *reader) hashes() [][]byte {
	count := r.number(1)
	hashes := make([][]byte, 0, count)
	for ; count > 0 && !r.cut; count-- {
		hashes = append(hashes, r.take(32))
	}
	return hashes
}

func (r *reader) whole() bool { return !r.cut && len(r.data) == 0 }

type header struct {
	ledgerID, previous, orderHash []byte
	height, outcomes, carried     uint64
	outcomesRoot, stateRoot, hash []byte
}

func resultHeader(data []byte) (h header, err error) {
	if len(data) != 250 || binary.BigEndian.Uint16(data) != 2 {
		return h, malformed
	}
	return header{
		ledgerID:     data[2:18],
		height:       binary.BigEndian.Uint64(data[18:]),
		previous:     data[26:58],
		orderHash:    data[58:90],
		outcomes:     uint64(binary.BigEndian.Uint32(data[102:])),
		carried:      uint64(binary.BigEndian.Uint32(data[106:])),
		outcomesRoot: data[110:142],
		stateRoot:    data[218:250],
		hash:         tagged("tally result v2\x00", data),
	}, nil
}

type order struct {
	ledgerID, previous, envelopesRoot, hash []byte
	height, envelopes                       uint64
}

func orderHeader(data []byte) (o order, err error) {
	if len(data) != 174 || binary.BigEndian.Uint16(data) != 2 {
		return o, malformed
	}
	return order{
		ledgerID:      data[2:18],
		height:        binary.BigEndian.Uint64(data[18:]),
		previous:      data[26:58],
		envelopes:     uint64(binary.BigEndian.Uint32(data[138:])),
		envelopesRoot: data[142:174],
		hash:          tagged("tally order v2\x00\x00", data),
	}, nil
}

// climb finds the root that an inclusion proof leads to; nil where it does not fit.
func climb(leaf []byte, index, leaves uint64, proof [][]byte) []byte {
	if index >= leaves {
		return nil
	}
	for last := leaves - 1; last > 0; index, last = index>>1, last>>1 {
		if index&1 == 0 && index == last {
			continue
		}
		if len(proof) == 0 {
			return nil
		}
		if index&1 == 1 {
			leaf = nodeHash(proof[0], leaf)
		} else {
			leaf = nodeHash(leaf, proof[0])
		}
		proof = proof[1:]
	}
	if len(proof) > 0 {
		return nil
	}
	return leaf
}

// climbs says whether an inclusion proof leads from a leaf's hash to a root.
func climbs(leaf []byte, index, leaves uint64, proof [][]byte, root []byte) bool {
	found := climb(leaf, index, leaves, proof)
	return found != nil && bytes.Equal(found, root)
}

// The state tree, docs/state-tree.md

const belowAll = math.MaxInt

func treeKey(table uint32, key []byte) []byte {
	full := append(binary.BigEndian.AppendUint32(nil, table), key...)
	if len(full) <= 127 {
		return full
	}
	return append(full[:96:96], sha(full)...)
}

func bit(key []byte, position int) int {
	at, within := position/9, position%9
	if at >= len(key) {
		return 0
	}
	if within == 0 {
		return 1
	}
	return int(key[at]>>(8-within)) & 1
}

func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return belowAll
	}
	position := 0
	for position/9 < len(a) && position/9 < len(b) && a[position/9] == b[position/9] {
		position += 9
	}
	for bit(a, position) == bit(b, position) {
		position++
	}
	return position
}

// keys from first to last, and, where they extend, those that begin with last.
type keys struct {
	first, last []byte
	extends     bool
}

func (k keys) contain(key []byte) bool {
	return bytes.Compare(k.first, key) <= 0 &&
		(bytes.Compare(key, k.last) <= 0 || k.extends && bytes.HasPrefix(key, k.last))
}

// against: how a key lies to all those with the bits of key before position, and there side.
func against(bound, key []byte, position, side int) int {
	if at := firstDifference(bound, key); at < position {
		return bit(bound, at) - bit(key, at)
	}
	return bit(bound, position) - side
}

func (k keys) meet(key []byte, position, side int) bool {
	if against(k.first, key, position, side) > 0 {
		return false
	}
	end := 9 * len(k.last)
	if k.extends && position >= end && firstDifference(k.last, key) >= end {
		return true
	}
	return against(k.last, key, position, side) >= 0
}

type row struct {
	key, image []byte
	height     uint64
}

type subtree struct {
	hash, key []byte
	position  int
}

func readPage(page []byte) ([]row, bool) {
	var rows []row
	for r := (reader{data: page}); len(r.data) > 0; {
		length := r.number(1)
		next := row{key: r.take(length), image: r.take(32), height: r.number(8)}
		fits := length >= 1 && length <= 128 && !r.cut
		if !fits || len(rows) > 0 && bytes.Compare(rows[len(rows)-1].key, next.key) >= 0 {
			return nil, false
		}
		rows = append(rows, next)
	}
	return rows, len(rows) < 2 || len(page) <= 512
}

func (s subtree) isBelow(position, side int) bool {
	return len(s.key) > 0 && position < s.position && bit(s.key, position) == side
}

func branch(position int, left, right, key []byte) subtree {
	number := binary.BigEndian.AppendUint16(nil, uint16(position))
	return subtree{sha([]byte("tally branch v1\x00"), number, left, right), key, position}
}

// verifyState returns all rows of the range, in order.
func verifyState(proof, root []byte, wanted keys) ([]row, bool) {
	r := reader{data: proof}
	if r.number(1) != 1 {
		return nil, false
	}
	var stack []subtree
	var found []row
	for !r.cut && len(r.data) > 0 {
		kind, position := r.number(1), int(r.number(2))
		needs := map[uint64]int{0: 0, 1: 1, 2: 1, 3: 2}
		if need, known := needs[kind]; !known || len(stack) < need {
			return nil, false
		}
		if kind == 0 {
			page := r.take(uint64(position))
			rows, whole := readPage(page)
			if r.cut || !whole {
				return nil, false
			}
			top := subtree{hash: tagged("tally page v1\x00\x00\x00", page), position: belowAll}
			if len(rows) > 0 {
				top.key = rows[0].key
				top.position = firstDifference(top.key, rows[len(rows)-1].key)
			}
			stack = append(stack, top)
			for _, row := range rows {
				if wanted.contain(row.key) {
					found = append(found, row)
				}
			}
			continue
		}
		shown := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if kind == 3 {
			left := stack[len(stack)-1]
			fits := left.isBelow(position, 0) && shown.isBelow(position, 1) &&
				firstDifference(left.key, shown.key) == position
			if !fits {
				return nil, false
			}
			stack[len(stack)-1] = branch(position, left.hash, shown.hash, left.key)
			continue
		}
		side, hidden := int(kind-1), r.take(32)
		if r.cut || !shown.isBelow(position, 1-side) || wanted.meet(shown.key, position, side) {
			return nil, false
		}
		if side == 1 {
			stack = append(stack, branch(position, shown.hash, hidden, shown.key))
		} else {
			stack = append(stack, branch(position, hidden, shown.hash, shown.key))
		}
	}
	return found, !r.cut && len(stack) == 1 && bytes.Equal(stack[0].hash, root)
}

// 4. Signed heads

// base64Bytes is nil if the text is not the one spelling of some bytes.
func base64Bytes(text string) []byte {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(data) != text {
		return nil
	}
	return data
}

func isName(name string) bool { return name != "" && !strings.ContainsAny(name, " +\n") }

// key checks signatures of heads.
type key struct {
	name string
	id   []byte
	key  ed25519.PublicKey
}

func parseKey(text string) (*key, error) {
	parts := strings.SplitN(text, "+", 3)
	if len(parts) == 3 {
		data := base64Bytes(parts[2])
		if len(data) == 33 && data[0] == 1 && isName(parts[0]) {
			id := sha([]byte(parts[0]), []byte("\n\x01"), data[1:])[:4]
			if hex.EncodeToString(id) == parts[1] {
				return &key{parts[0], id, data[1:]}, nil
			}
		}
	}
	return nil, errors.New("this is no verifier key")
}

type signedHead struct {
	origin string
	size   uint64
	root   []byte
}

type signature struct {
	name   string
	signed []byte
}

func (k *key) open(note []byte) (head signedHead, err error) {
	text, lines, head, ok := parseNote(note)
	if !ok {
		return head, Refused("note")
	}
	for _, line := range lines {
		if line.name == k.name && bytes.Equal(line.signed[:4], k.id) {
			signature := line.signed[4:]
			valid := len(signature) == 64 && ed25519.Verify(k.key, []byte(text), signature)
			failed(&err, valid, "signature")
			return head, err
		}
	}
	return head, Refused("key")
}

func parseNote(data []byte) (text string, lines []signature, head signedHead, ok bool) {
	note := string(data)
	for _, b := range data {
		if b < ' ' && b != '\n' {
			return
		}
	}
	end := strings.LastIndex(note, "\n\n")
	if !utf8.ValidString(note) || end < 0 || end+2 >= len(note) || !strings.HasSuffix(note, "\n") {
		return
	}
	signatures := strings.Split(note[end+2:len(note)-1], "\n")
	if len(signatures) > 100 {
		return
	}
	for _, line := range signatures {
		dashed := strings.HasPrefix(line, "— ")
		name, encoded, spaced := strings.Cut(strings.TrimPrefix(line, "— "), " ")
		signed := base64Bytes(encoded)
		if !dashed || !spaced || !isName(name) || len(signed) < 5 {
			return
		}
		lines = append(lines, signature{name, signed})
	}
	said := strings.Split(note[:end], "\n")
	if len(said) < 3 {
		return
	}
	for _, line := range said {
		if line == "" {
			return
		}
	}
	size, err := strconv.ParseInt(said[1], 10, 64)
	root := base64Bytes(said[2])
	if err != nil || strconv.FormatInt(size, 10) != said[1] || size < 0 || len(root) != 32 {
		return
	}
	return note[:end+1], lines, signedHead{said[0], uint64(size), root}, true
}

// 5. Consistency

func areConsistent(old, recent signedHead, path [][]byte) bool {
	if old.size == 0 || old.size > recent.size {
		return false
	}
	if old.size == recent.size {
		return len(path) == 0 && bytes.Equal(old.root, recent.root)
	}
	if old.size&(old.size-1) == 0 {
		path = append([][]byte{old.root}, path...)
	}
	if len(path) == 0 {
		return false
	}
	i, last := old.size-1, recent.size-1
	for i&1 == 1 {
		i, last = i>>1, last>>1
	}
	was, is := path[0], path[0]
	for _, hash := range path[1:] {
		if last == 0 {
			return false
		}
		if i&1 == 1 || i == last {
			was, is = nodeHash(hash, was), nodeHash(hash, is)
			for i > 0 && i&1 == 0 {
				i, last = i>>1, last>>1
			}
		} else {
			is = nodeHash(is, hash)
		}
		i, last = i>>1, last>>1
	}
	return last == 0 && bytes.Equal(was, old.root) && bytes.Equal(is, recent.root)
}

// 2. and 3. The bodies

// trust is a head, a key or a first block.
type trust struct {
	head       []byte
	key        *key
	firstBlock []byte
}

// body: header is nil where there is none; check says what is proven.
type body struct {
	header *header
	check  func(trust) (string, error)
}

func readReceipt(data []byte) (body, error) {
	r := reader{data: data}
	version := r.number(1)
	head, err := resultHeader(r.take(250))
	var orders []order
	for count := r.number(1); count > 0 && err == nil; count-- {
		var next order
		next, err = orderHeader(r.take(174))
		orders = append(orders, next)
	}
	index, envelope, envelopeProof := r.number(4), r.text(), r.hashes()
	outcomeIndex, outcome, outcomeProof := r.number(4), r.text(), r.hashes()
	failed(&err, version == 2 && len(orders) > 0 && r.whole(), malformed)
	if err != nil {
		return body{}, err
	}
	origin, own := orders[len(orders)-1], len(orders) == 1
	check := func(trust) (string, error) {
		linked := bytes.Equal(head.orderHash, orders[0].hash)
		for at := 1; at < len(orders); at++ {
			after, before := orders[at-1], orders[at]
			linked = linked && bytes.Equal(after.previous, before.hash) &&
				after.height-1 == before.height && after.height > 0 &&
				bytes.Equal(after.ledgerID, before.ledgerID)
		}
		fits, leaf := outcomeIndex == index && outcomeIndex < head.outcomes, outcome
		if !own {
			fits = outcomeIndex >= head.outcomes
			leaf = binary.BigEndian.AppendUint64(nil, origin.height)
			leaf = binary.BigEndian.AppendUint32(leaf, uint32(index))
			leaf = append(leaf, outcome...)
		}
		holds := linked && fits &&
			climbs(leafHash(envelope), index, origin.envelopes, envelopeProof, origin.envelopesRoot) &&
			climbs(leafHash(leaf), outcomeIndex, head.outcomes+head.carried, outcomeProof,
				head.outcomesRoot)
		if !holds {
			return "", Refused("receipt")
		}
		said := fmt.Sprintf("receipt %d %d %d %x:%x", head.height, origin.height, index, envelope,
			outcome)
		for _, key := range signers(envelope) {
			said += " " + key
		}
		return said, nil
	}
	return body{&head, check}, nil
}

func readRows(data []byte) (body, error) {
	r := reader{data: data}
	head, err := resultHeader(r.take(250))
	table, first, last, extends := uint32(r.number(4)), r.text(), r.text(), r.number(1)
	proof := r.text()
	var rows []row
	for count := r.number(4); count > 0 && !r.cut; count-- {
		rows = append(rows, row{key: r.text(), image: r.text()})
	}
	wanted := keys{first, last, extends == 1}
	failed(&err, r.whole() && extends <= 1 && wanted.contain(first), malformed)
	if err != nil {
		return body{}, err
	}
	check := func(trust) (string, error) {
		if isZero(head.stateRoot) {
			return "", Refused("state_root")
		}
		bounds := keys{treeKey(table, first), treeKey(table, first), false}
		if !bytes.Equal(first, last) || wanted.extends {
			cut := func(key []byte) []byte {
				if len(key) > 92 {
					key = key[:92]
				}
				return treeKey(table, key)
			}
			bounds = keys{cut(first), cut(last), wanted.extends || len(last) > 92}
		}
		shown, holds := verifyState(proof, head.stateRoot, bounds)
		if !holds {
			return "", Refused("state")
		}
		fits := len(shown) == len(rows)
		says := fmt.Sprintf("rows %d %d %x:%x:%d", head.height, table, first, last, extends)
		for at := 0; fits && at < len(rows); at++ {
			told, known := rows[at], shown[at]
			fits = bytes.Equal(treeKey(table, told.key), known.key) &&
				bytes.Equal(tagged("tally row v1\x00\x00\x00\x00", told.image), known.image)
			if wanted.contain(told.key) {
				says += fmt.Sprintf(" %x:%x:%d", told.key, told.image, known.height)
			}
		}
		if !fits {
			return "", Refused("rows")
		}
		return says, nil
	}
	return body{&head, check}, nil
}

func readHead(data []byte) (body, error) {
	head, err := resultHeader(data)
	check := func(trust) (string, error) {
		return fmt.Sprintf("head %d %x", head.height, head.hash), nil
	}
	return body{&head, check}, err
}

func readConsistency(data []byte) (body, error) {
	r := reader{data: data}
	older, newer, hashes := r.text(), r.text(), r.hashes()
	if !r.whole() {
		return body{}, malformed
	}
	check := func(trust trust) (string, error) {
		if trust.key == nil {
			return "", Refused("trust")
		}
		old, err := trust.key.open(older)
		if err != nil {
			return "", err
		}
		recent, err := trust.key.open(newer)
		failed(&err, old.origin == recent.origin, "origin")
		failed(&err, areConsistent(old, recent, hashes), "consistency")
		return fmt.Sprintf("consistency %d:%x %d:%x", old.size, old.root, recent.size, recent.root), err
	}
	return body{nil, check}, nil
}

type anchor struct {
	kind    uint64
	headers []header
	note    []byte
	hashes  [][]byte
	votes   votes
}

func readHeaders(r *reader) (headers []header, err error) {
	for count := r.number(4); count > 0 && err == nil; count-- {
		var next header
		next, err = resultHeader(r.take(250))
		headers = append(headers, next)
	}
	return headers, err
}

// lastOf is the last of some headers, each of which follows the one before, the first this one.
func (h header) lastOf(headers []header) (header, error) {
	for _, next := range headers {
		follows := bytes.Equal(next.previous, h.hash) && next.height-1 == h.height &&
			next.height > 0 && bytes.Equal(next.ledgerID, h.ledgerID)
		if !follows {
			return h, Refused("links")
		}
		h = next
	}
	return h, nil
}

func readAnchor(r *reader) (a anchor, err error) {
	a.kind = r.number(1)
	switch a.kind {
	case 1:
		a.headers, err = readHeaders(r)
	case 2:
		a.note, a.hashes = r.text(), r.hashes()
	case 3:
		a.votes, err = readVotes(r)
	}
	failed(&err, a.kind <= 3 && r.whole(), malformed)
	return a, err
}

func (a anchor) check(head header, trust trust) error {
	if trust.key != nil {
		if a.kind != 2 {
			return Refused("trust")
		}
		signed, err := trust.key.open(a.note)
		failed(&err, signed.origin == "tally/"+hex.EncodeToString(head.ledgerID), "origin")
		if err == nil && !climbs(leafHash(head.hash), head.height, signed.size, a.hashes, signed.root) {
			err = Refused("inclusion")
		}
		return err
	}
	if trust.firstBlock != nil {
		if a.kind != 3 {
			return Refused("trust")
		}
		return a.votes.check(head, trust.firstBlock)
	}
	last, err := head.lastOf(a.headers)
	failed(&err, bytes.Equal(last.hash, trust.head), "head")
	return err
}

// verify says what a proof proves to a client that trusts this.
func verify(proof []byte, trust trust) (string, error) {
	r := reader{data: proof}
	version, kind, data := r.number(1), r.number(1), r.text()
	if r.cut || version != 1 || kind < 1 || kind > 4 {
		return "", malformed
	}
	readers := []func([]byte) (body, error){readReceipt, readRows, readHead, readConsistency}
	body, err := readers[kind-1](data)
	if err != nil {
		return "", err
	}
	anchor, err := readAnchor(&r)
	failed(&err, kind != 4 || anchor.kind == 0, malformed)
	if err == nil && body.header != nil {
		err = anchor.check(*body.header, trust)
	}
	if err != nil {
		return "", err
	}
	return body.check(trust)
}

func trusted(text string) (trust, error) {
	if digits, isFirst := strings.CutPrefix(text, "first:"); isFirst {
		hash, err := hex.DecodeString(digits)
		if err == nil && len(hash) == 32 && strings.ToLower(digits) == digits {
			return trust{firstBlock: hash}, nil
		}
	}
	head, err := hex.DecodeString(text)
	if err == nil && len(head) == 32 && strings.ToLower(text) == text {
		return trust{head: head}, nil
	}
	key, err := parseKey(text)
	return trust{key: key}, err
}

func answerLines() error {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		text, proof, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		data, err := hex.DecodeString(proof)
		if err != nil {
			return err
		}
		trust, err := trusted(text)
		if err != nil {
			return err
		}
		if says, err := verify(data, trust); err != nil {
			fmt.Println("no", err)
		} else {
			fmt.Println("ok", says)
		}
	}
}

func checkFile(path, text string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(data, []byte("{")) {
		var file struct{ Proof string }
		if err := json.Unmarshal(data, &file); err != nil {
			return err
		}
		if data, err = hex.DecodeString(file.Proof); err != nil {
			return err
		}
	}
	trust, err := trusted(text)
	if err != nil {
		return err
	}
	says, err := verify(data, trust)
	if err == nil {
		fmt.Println(says)
	}
	return err
}

func main() {
	err := errors.New("use: check_proof FILE TRUST, or check_proof -")
	if len(os.Args) == 2 && os.Args[1] == "-" {
		err = answerLines()
	} else if len(os.Args) == 3 {
		err = checkFile(os.Args[1], os.Args[2])
	}
	var refused Refused
	if errors.As(err, &refused) {
		fmt.Fprintln(os.Stderr, "the proof does not hold:", refused)
		os.Exit(1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
