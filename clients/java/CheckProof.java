import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Checks proofs of a ledger without any of the code that made them. Written from docs/proofs.md and
 * the pages that it names alone, with the JDK; section numbers are those of docs/proofs.md.
 *
 * <pre>
 * java CheckProof.java FILE TRUST     TRUST: a head, 64 hexadecimal digits, a verifier key, or
 *                                     "first:" and the hash of the first block's order header
 * java CheckProof.java -              lines "TRUST PROOF" in hexadecimal; answers a line to each
 * </pre>
 *
 * Prints what is proven. Exit codes: 0 it holds, 1 it does not, 2 wrong usage or unreadable files.
 */
public final class CheckProof {
    /** Why a proof proves nothing, in one word. */
    static final class Refused extends Exception {
        private static final long serialVersionUID = 1;

        Refused(String reason) {
            super(reason, null, false, false);
        }
    }

    static void require(boolean holds, String reason) throws Refused {
        if (!holds) throw new Refused(reason);
    }

    static final HexFormat HEX = HexFormat.of();

    static byte[] sha256(byte[]... parts) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (byte[] part : parts) digest.update(part);
            return digest.digest();
        } catch (GeneralSecurityException missing) {
            throw new IllegalStateException(missing);
        }
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    static byte[] leafHash(byte[] data) {
        return sha256(new byte[] {0}, data);
    }

    static byte[] nodeHash(byte[] left, byte[] right) {
        return sha256(new byte[] {1}, left, right);
    }

    static byte[] joined(byte[] a, byte[] b) {
        byte[] both = Arrays.copyOf(a, a.length + b.length);
        System.arraycopy(b, 0, both, a.length, b.length);
        return both;
    }

    static byte[] start(byte[] data, int length) {
        return data.length <= length ? data : Arrays.copyOf(data, length);
    }

    /** Reads bytes from the front; those that are missing are the reason that it was given. */
    static final class Reader {
        private final ByteBuffer data;
        private final String cut;

        Reader(byte[] data, String cut) {
            this.data = ByteBuffer.wrap(data);
            this.cut = cut;
        }

        byte[] take(long count) throws Refused {
            require(count <= data.remaining(), cut);
            byte[] taken = new byte[(int) count];
            data.get(taken);
            return taken;
        }

        int u8() throws Refused {
            return take(1)[0] & 0xff;
        }

        int u16() throws Refused {
            return ByteBuffer.wrap(take(2)).getShort() & 0xffff;
        }

        long u32() throws Refused {
            return ByteBuffer.wrap(take(4)).getInt() & 0xffffffffL;
        }

        long u64() throws Refused {
            return ByteBuffer.wrap(take(8)).getLong();
        }

        byte[] string() throws Refused {
            return take(u32());
        }

        List<byte[]> hashes() throws Refused {
            List<byte[]> hashes = new ArrayList<>();
            for (int count = u8(); count > 0; count--) hashes.add(take(32));
            return hashes;
        }

        int left() {
            return data.remaining();
        }

        boolean isAtEnd() {
            return !data.hasRemaining();
        }

        void finish() throws Refused {
            require(isAtEnd(), cut);
        }
    }

    /** A result header. Heights are unsigned. */
    static final class Header {
        final byte[] ledgerId, previous, orderHash, outcomesRoot, stateRoot, hash;
        final long height, outcomes, carried;

        Header(byte[] data) throws Refused {
            Reader reader = new Reader(data, "malformed");
            require(data.length == 250 && reader.u16() == 2, "malformed");
            ledgerId = reader.take(16);
            height = reader.u64();
            previous = reader.take(32);
            orderHash = reader.take(32);
            reader.take(12);
            outcomes = reader.u32();
            carried = reader.u32();
            outcomesRoot = reader.take(32);
            stateRoot = Arrays.copyOfRange(data, 218, 250);
            hash = sha256(ascii("tally result v2\0"), data);
        }

        static List<Header> list(Reader reader) throws Refused {
            List<Header> headers = new ArrayList<>();
            for (long count = reader.u32(); count > 0; count--) {
                headers.add(new Header(reader.take(250)));
            }
            return headers;
        }

        /** The last of some, each of which follows the one before, the first this one. */
        Header lastOf(List<Header> headers) throws Refused {
            Header last = this;
            for (Header next : headers) {
                boolean follows = Arrays.equals(next.previous, last.hash)
                    && follows(next.height, last.height)
                    && Arrays.equals(next.ledgerId, last.ledgerId);
                require(follows, "links");
                last = next;
            }
            return last;
        }
    }

    /** An order header. */
    static final class Order {
        final byte[] ledgerId, previous, envelopesRoot, hash;
        final long height, envelopes;

        Order(byte[] data) throws Refused {
            Reader reader = new Reader(data, "malformed");
            require(reader.u16() == 2, "malformed");
            ledgerId = reader.take(16);
            height = reader.u64();
            previous = reader.take(32);
            envelopes = new Reader(Arrays.copyOfRange(data, 138, 142), "malformed").u32();
            envelopesRoot = Arrays.copyOfRange(data, 142, 174);
            hash = sha256(ascii("tally order v2\0\0"), data);
        }
    }

    /** One above, without running over the largest number. */
    static boolean follows(long after, long before) {
        return after != 0 && after - 1 == before;
    }

    /** The root that an inclusion proof leads to; null where it does not fit. */
    static byte[] climb(byte[] leaf, long index, long leaves, List<byte[]> proof) {
        if (Long.compareUnsigned(index, leaves) >= 0) return null;
        int at = 0;
        for (long last = leaves - 1; last != 0; last >>>= 1, index >>>= 1) {
            if ((index & 1) == 0 && index == last) continue;
            if (at == proof.size()) return null;
            byte[] other = proof.get(at++);
            leaf = (index & 1) == 1 ? nodeHash(other, leaf) : nodeHash(leaf, other);
        }
        return at == proof.size() ? leaf : null;
    }

    /** Whether an inclusion proof leads from a leaf's hash to a root. */
    static boolean climbs(byte[] leaf, long index, long leaves, List<byte[]> proof, byte[] root) {
        byte[] found = climb(leaf, index, leaves, proof);
        return found != null && Arrays.equals(found, root);
    }

    // The state tree, docs/state-tree.md

    static byte[] treeKey(long table, byte[] key) {
        byte[] full = joined(ByteBuffer.allocate(4).putInt((int) table).array(), key);
        return full.length <= 127 ? full : joined(start(full, 96), sha256(full));
    }

    static int bit(byte[] key, int position) {
        int within = position % 9;
        if (position / 9 >= key.length) return 0;
        return within == 0 ? 1 : key[position / 9] >> (8 - within) & 1;
    }

    /** The largest int if there is none. */
    static int firstDifference(byte[] a, byte[] b) {
        int same = Arrays.mismatch(a, b);
        if (same < 0) return Integer.MAX_VALUE;
        int position = 9 * same;
        while (bit(a, position) == bit(b, position)) position++;
        return position;
    }

    /** From first to last, and, where they extend, those that begin with last. */
    record Keys(byte[] first, byte[] last, boolean isOpen) {
        boolean contains(byte[] key) {
            boolean begins = isOpen && key.length >= last.length
                && Arrays.equals(start(key, last.length), last);
            return Arrays.compareUnsigned(first, key) <= 0
                && (begins || Arrays.compareUnsigned(key, last) <= 0);
        }

        boolean meets(byte[] key, int position, int side) {
            if (against(first, key, position, side) > 0) return false;
            int end = 9 * last.length;
            boolean covers = isOpen && position >= end && firstDifference(last, key) >= end;
            return covers || against(last, key, position, side) >= 0;
        }

        /** How a key lies to all those with the bits of key before position, and there side. */
        static int against(byte[] bound, byte[] key, int position, int side) {
            int at = firstDifference(bound, key);
            return at < position ? bit(bound, at) - bit(key, at) : bit(bound, position) - side;
        }
    }

    record Row(byte[] key, byte[] image, long height) {}

    record Subtree(byte[] hash, byte[] key, int position) {
        void below(int at, int side) throws Refused {
            require(key.length > 0 && at < position && bit(key, at) == side, "state");
        }

        static Subtree branch(int position, byte[] left, byte[] right, byte[] key) {
            byte[] number = {(byte) (position >> 8), (byte) position};
            byte[] hash = sha256(ascii("tally branch v1\0"), number, left, right);
            return new Subtree(hash, key, position);
        }
    }

    static List<Row> readPage(byte[] page) throws Refused {
        List<Row> rows = new ArrayList<>();
        for (Reader reader = new Reader(page, "state"); !reader.isAtEnd(); ) {
            int length = reader.u8();
            require(length >= 1 && length <= 128, "state");
            Row row = new Row(reader.take(length), reader.take(32), reader.u64());
            boolean ascends = rows.isEmpty()
                || Arrays.compareUnsigned(rows.get(rows.size() - 1).key, row.key) < 0;
            require(ascends, "state");
            rows.add(row);
        }
        require(rows.size() < 2 || page.length <= 512, "state");
        return rows;
    }

    /** All rows of the range, in order. */
    static List<Row> verifyState(byte[] proof, byte[] root, Keys wanted) throws Refused {
        Reader reader = new Reader(proof, "state");
        require(reader.u8() == 1, "state");
        List<Subtree> stack = new ArrayList<>();
        List<Row> found = new ArrayList<>();
        while (!reader.isAtEnd()) {
            int kind = reader.u8();
            int number = reader.u16();
            require(kind <= 3 && stack.size() >= (kind == 3 ? 2 : kind == 0 ? 0 : 1), "state");
            if (kind == 0) {
                byte[] page = reader.take(number);
                List<Row> rows = readPage(page);
                byte[] key = rows.isEmpty() ? new byte[0] : rows.get(0).key;
                int position = rows.isEmpty() ? Integer.MAX_VALUE
                    : firstDifference(key, rows.get(rows.size() - 1).key);
                byte[] hash = sha256(ascii("tally page v1\0\0\0"), page);
                stack.add(new Subtree(hash, key, position));
                for (Row row : rows) if (wanted.contains(row.key)) found.add(row);
                continue;
            }
            Subtree shown = stack.remove(stack.size() - 1);
            if (kind == 3) {
                Subtree left = stack.remove(stack.size() - 1);
                left.below(number, 0);
                shown.below(number, 1);
                require(firstDifference(left.key, shown.key) == number, "state");
                stack.add(Subtree.branch(number, left.hash, shown.hash, left.key));
                continue;
            }
            int side = kind - 1;
            byte[] hidden = reader.take(32);
            shown.below(number, 1 - side);
            require(!wanted.meets(shown.key, number, side), "state");
            stack.add(side == 1
                ? Subtree.branch(number, shown.hash, hidden, shown.key)
                : Subtree.branch(number, hidden, shown.hash, shown.key));
        }
        require(stack.size() == 1 && Arrays.equals(stack.get(0).hash, root), "state");
        return found;
    }

    // 4. Signed heads

    /** No bytes if the text is not the one spelling of some. */
    static byte[] base64Bytes(String text) {
        try {
            byte[] data = Base64.getDecoder().decode(text);
            return Base64.getEncoder().encodeToString(data).equals(text) ? data : new byte[0];
        } catch (IllegalArgumentException none) {
            return new byte[0];
        }
    }

    static boolean isName(String name) {
        return !name.isEmpty() && name.chars().noneMatch(c -> c == ' ' || c == '+' || c == '\n');
    }

    record SignedHead(String origin, long size, byte[] root) {
        String told() {
            return size + ":" + HEX.formatHex(root);
        }
    }

    record SignatureLine(String name, byte[] signed) {}

    record Note(String text, List<SignatureLine> lines, SignedHead head) {}

    static final class Key {
        private static final byte[] PREFIX = HEX.parseHex("302a300506032b6570032100");
        private final String name;
        private final byte[] id;
        private final PublicKey key;

        Key(String text) throws GeneralSecurityException {
            String[] parts = text.split("\\+", 3);
            byte[] data = parts.length == 3 ? base64Bytes(parts[2]) : new byte[0];
            if (data.length != 33 || data[0] != 1 || !isName(parts[0])) {
                throw new IllegalArgumentException("this is no verifier key");
            }
            name = parts[0];
            byte[] raw = Arrays.copyOfRange(data, 1, 33);
            byte[] named = name.getBytes(StandardCharsets.UTF_8);
            id = start(sha256(named, ascii("\n\1"), raw), 4);
            if (!HEX.formatHex(id).equals(parts[1])) {
                throw new IllegalArgumentException("this is no verifier key");
            }
            key = publicKey(raw);
        }

        static PublicKey publicKey(byte[] raw) throws GeneralSecurityException {
            X509EncodedKeySpec spec = new X509EncodedKeySpec(joined(PREFIX, raw));
            return KeyFactory.getInstance("Ed25519").generatePublic(spec);
        }

        /** What this key has signed. */
        SignedHead open(byte[] bytes) throws Refused {
            Note note = parseNote(bytes);
            for (SignatureLine line : note.lines) {
                boolean own = line.name.equals(name) && Arrays.equals(start(line.signed, 4), id);
                if (!own) continue;
                byte[] signature = Arrays.copyOfRange(line.signed, 4, line.signed.length);
                byte[] text = note.text.getBytes(StandardCharsets.UTF_8);
                require(isValid(key, text, signature), "signature");
                return note.head;
            }
            throw new Refused("key");
        }

        static boolean isSigned(byte[] raw, byte[] message, byte[] signature) {
            try {
                return isValid(publicKey(raw), message, signature);
            } catch (GeneralSecurityException none) {
                return false;
            }
        }

        static boolean isValid(PublicKey key, byte[] message, byte[] signature) {
            try {
                Signature check = Signature.getInstance("Ed25519");
                check.initVerify(key);
                check.update(message);
                return signature.length == 64 && check.verify(signature);
            } catch (GeneralSecurityException invalid) {
                return false;
            }
        }
    }

    static Note parseNote(byte[] data) throws Refused {
        String note;
        try {
            note = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(data)).toString();
        } catch (CharacterCodingException none) {
            throw new Refused("note");
        }
        int end = note.lastIndexOf("\n\n");
        boolean plain = note.chars().noneMatch(c -> c < ' ' && c != '\n');
        require(plain && end >= 0 && end + 2 < note.length() && note.endsWith("\n"), "note");
        String[] signatures = note.substring(end + 2, note.length() - 1).split("\n", -1);
        require(signatures.length <= 100, "note");
        List<SignatureLine> lines = new ArrayList<>();
        for (String line : signatures) {
            require(line.startsWith("\u2014 "), "note");
            int space = line.indexOf(' ', 2);
            require(space > 0 && isName(line.substring(2, space)), "note");
            byte[] signed = base64Bytes(line.substring(space + 1));
            require(signed.length >= 5, "note");
            lines.add(new SignatureLine(line.substring(2, space), signed));
        }
        String text = note.substring(0, end + 1);
        List<String> said = List.of(note.substring(0, end).split("\n", -1));
        require(said.size() >= 3 && !said.contains(""), "note");
        require(said.get(1).matches("0|[1-9][0-9]{0,18}"), "note");
        long size;
        try {
            size = Long.parseLong(said.get(1));
        } catch (NumberFormatException tooLarge) {
            throw new Refused("note");
        }
        byte[] root = base64Bytes(said.get(2));
        require(root.length == 32, "note");
        return new Note(text, lines, new SignedHead(said.get(0), size, root));
    }

    // 5. Consistency

    static boolean areConsistent(SignedHead old, SignedHead recent, List<byte[]> proof) {
        if (old.size == 0 || old.size > recent.size) return false;
        if (old.size == recent.size) {
            return proof.isEmpty() && Arrays.equals(old.root, recent.root);
        }
        List<byte[]> path = new ArrayList<>(proof);
        if ((old.size & (old.size - 1)) == 0) path.add(0, old.root);
        if (path.isEmpty()) return false;
        long i = old.size - 1;
        long last = recent.size - 1;
        for (; (i & 1) == 1; i >>= 1) last >>= 1;
        byte[] was = path.get(0);
        byte[] is = was;
        for (byte[] hash : path.subList(1, path.size())) {
            if (last == 0) return false;
            if ((i & 1) == 1 || i == last) {
                was = nodeHash(hash, was);
                is = nodeHash(hash, is);
                for (; i > 0 && (i & 1) == 0; i >>= 1) last >>= 1;
            } else {
                is = nodeHash(is, hash);
            }
            i >>= 1;
            last >>= 1;
        }
        return last == 0 && Arrays.equals(was, old.root) && Arrays.equals(is, recent.root);
    }

    // Envelopes, docs/order-format.md, section 2: as much of them as tells who has signed one

    static long varint(Reader reader) throws Refused {
        long number = 0;
        for (int shift = 0; ; shift += 7) {
            int taken = reader.u8();
            long part = taken & 0x7f;
            require(shift <= 63 && part << shift >>> shift == part, "malformed");
            require(taken != 0 || shift == 0, "malformed");
            number |= part << shift;
            if (taken < 0x80) return number;
        }
    }

    static byte[] part(Reader reader) throws Refused {
        long length = varint(reader);
        require(length >= 0, "malformed");
        return reader.take(length);
    }

    /** Keys and signatures. */
    static List<byte[][]> pairs(Reader reader, boolean keys) throws Refused {
        long count = varint(reader);
        require(Long.compareUnsigned(count, 64) <= 0, "malformed");
        List<byte[][]> pairs = new ArrayList<>();
        for (; count > 0; count--) {
            pairs.add(new byte[][] {keys ? reader.take(32) : part(reader), part(reader)});
        }
        return pairs;
    }

    /**
     * The keys whose signatures over it are right, then those whose approvals are; none of bytes
     * that are no envelope.
     */
    static List<String> signers(byte[] envelope) {
        try {
            Reader reader = new Reader(envelope, "malformed");
            int form = reader.u8();
            require(form >> 3 == 2, "malformed");
            reader.take(16);
            part(reader);
            if ((form & 1) != 0) {
                part(reader);
            } else {
                reader.take(16);
                varint(reader);
            }
            varint(reader);
            varint(reader);
            if ((form & 2) != 0) pairs(reader, false);
            if ((form & 4) != 0) reader.take(16);
            part(reader);
            byte[] body = start(envelope, envelope.length - reader.left());
            byte[] id = sha256(ascii("tally envelope 1"), body);
            boolean bare = reader.isAtEnd();
            List<byte[][]> signatures = bare ? List.of() : pairs(reader, true);
            List<byte[][]> approvals = bare ? List.of() : pairs(reader, true);
            require(reader.isAtEnd(), "malformed");
            byte[] message = joined(ascii("tally signature1"), id);
            List<String> right = new ArrayList<>();
            for (byte[][] pair : signatures) {
                if (Key.isSigned(pair[0], message, pair[1])) right.add(HEX.formatHex(pair[0]));
            }
            for (byte[][] pair : approvals) {
                if (isApproved(pair[0], id, pair[1])) {
                    right.add("approval:" + HEX.formatHex(pair[0]));
                }
            }
            return right;
        } catch (Refused none) {
            return List.of();
        }
    }

    /** Whether an approval is right: of this transaction alone, or of a tree that it is in. */
    static boolean isApproved(byte[] key, byte[] id, byte[] approval) {
        byte[] message = joined(ascii("tally approval 1"), id);
        if (approval.length <= 64) return Key.isSigned(key, message, approval);
        ByteBuffer rest = ByteBuffer.wrap(approval, 64, approval.length - 64);
        if (rest.remaining() % 32 != 4) return false;
        int leaves = Short.toUnsignedInt(rest.getShort());
        int index = Short.toUnsignedInt(rest.getShort());
        List<byte[]> path = new ArrayList<>();
        while (rest.hasRemaining()) {
            byte[] hash = new byte[32];
            rest.get(hash);
            path.add(hash);
        }
        byte[] root = climb(leafHash(message), index, leaves, path);
        if (root == null || leaves < 2 || leaves > 1024) return false;
        byte[] count = ByteBuffer.allocate(2).putShort((short) leaves).array();
        byte[] signed = joined(joined(ascii("tally approvals1"), count), root);
        return Key.isSigned(key, signed, start(approval, 64));
    }

    // 2. and 3. The bodies

    /** What is trusted: a head, a key, or a first block. */
    record Trust(byte[] head, Key key, byte[] firstBlock) {}

    interface Body {
        /** Null where there is none. */
        Header header();

        String check(Trust trust) throws Refused;
    }

    record Receipt(Header header, List<Order> orders, long index, byte[] envelope,
            List<byte[]> envelopeProof, long outcomeIndex, byte[] outcome,
            List<byte[]> outcomeProof) implements Body {
        static Receipt read(Reader reader) throws Refused {
            require(reader.u8() == 2, "malformed");
            Header header = new Header(reader.take(250));
            List<Order> orders = new ArrayList<>();
            for (int count = reader.u8(); count > 0; count--) {
                orders.add(new Order(reader.take(174)));
            }
            require(!orders.isEmpty(), "malformed");
            return new Receipt(header, orders, reader.u32(), reader.string(), reader.hashes(),
                reader.u32(), reader.string(), reader.hashes());
        }

        @Override
        public String check(Trust trust) throws Refused {
            require(Arrays.equals(header.orderHash, orders.get(0).hash), "receipt");
            for (int at = 1; at < orders.size(); at++) {
                Order after = orders.get(at - 1);
                Order before = orders.get(at);
                boolean linked = Arrays.equals(after.previous, before.hash)
                    && follows(after.height, before.height)
                    && Arrays.equals(after.ledgerId, before.ledgerId);
                require(linked, "receipt");
            }
            Order origin = orders.get(orders.size() - 1);
            boolean own = orders.size() == 1;
            require(own ? outcomeIndex == index && outcomeIndex < header.outcomes
                : outcomeIndex >= header.outcomes, "receipt");
            ByteBuffer place = ByteBuffer.allocate(12).putLong(origin.height).putInt((int) index);
            byte[] leaf = leafHash(own ? outcome : joined(place.array(), outcome));
            boolean holds = climbs(leafHash(envelope), index, origin.envelopes, envelopeProof,
                    origin.envelopesRoot)
                && climbs(leaf, outcomeIndex, header.outcomes + header.carried, outcomeProof,
                    header.outcomesRoot);
            require(holds, "receipt");
            StringBuilder said = new StringBuilder("receipt ")
                .append(Long.toUnsignedString(header.height)).append(" ")
                .append(Long.toUnsignedString(origin.height)).append(" ").append(index).append(" ")
                .append(HEX.formatHex(envelope)).append(":").append(HEX.formatHex(outcome));
            for (String key : signers(envelope)) said.append(" ").append(key);
            return said.toString();
        }
    }

    record Rows(Header header, long table, Keys range, byte[] proof, List<byte[][]> rows)
            implements Body {
        static Rows read(Reader reader) throws Refused {
            Header header = new Header(reader.take(250));
            long table = reader.u32();
            byte[] first = reader.string();
            byte[] last = reader.string();
            int extended = reader.u8();
            byte[] proof = reader.string();
            List<byte[][]> rows = new ArrayList<>();
            for (long count = reader.u32(); count > 0; count--) {
                rows.add(new byte[][] {reader.string(), reader.string()});
            }
            Keys range = new Keys(first, last, extended == 1);
            require(extended <= 1 && range.contains(first), "malformed");
            return new Rows(header, table, range, proof, rows);
        }

        private Keys bounds() {
            byte[] first = range.first;
            byte[] last = range.last;
            if (Arrays.equals(first, last) && !range.isOpen) {
                return new Keys(treeKey(table, first), treeKey(table, first), false);
            }
            boolean isOpen = range.isOpen || last.length > 92;
            byte[] from = treeKey(table, start(first, 92));
            return new Keys(from, treeKey(table, start(last, 92)), isOpen);
        }

        @Override
        public String check(Trust trust) throws Refused {
            require(!Arrays.equals(header.stateRoot, new byte[32]), "state_root");
            List<Row> shown = verifyState(proof, header.stateRoot, bounds());
            require(shown.size() == rows.size(), "rows");
            StringBuilder says = new StringBuilder("rows ")
                .append(Long.toUnsignedString(header.height)).append(' ').append(table).append(' ')
                .append(HEX.formatHex(range.first)).append(':').append(HEX.formatHex(range.last))
                .append(':').append(range.isOpen ? 1 : 0);
            for (int at = 0; at < rows.size(); at++) {
                byte[] key = rows.get(at)[0];
                byte[] image = rows.get(at)[1];
                Row known = shown.get(at);
                boolean isIt = Arrays.equals(treeKey(table, key), known.key)
                    && Arrays.equals(sha256(ascii("tally row v1\0\0\0\0"), image), known.image);
                require(isIt, "rows");
                if (!range.contains(key)) continue;
                says.append(' ').append(HEX.formatHex(key)).append(':')
                    .append(HEX.formatHex(image)).append(':')
                    .append(Long.toUnsignedString(known.height));
            }
            return says.toString();
        }
    }

    record Head(Header header) implements Body {
        @Override
        public String check(Trust trust) {
            return "head " + Long.toUnsignedString(header.height) + " "
                + HEX.formatHex(header.hash);
        }
    }

    record Consistency(byte[] older, byte[] newer, List<byte[]> hashes) implements Body {
        @Override
        public Header header() {
            return null;
        }

        @Override
        public String check(Trust trust) throws Refused {
            require(trust.key != null, "trust");
            SignedHead old = trust.key.open(older);
            SignedHead recent = trust.key.open(newer);
            require(old.origin.equals(recent.origin), "origin");
            require(areConsistent(old, recent, hashes), "consistency");
            return "consistency " + old.told() + " " + recent.told();
        }
    }

    static Body readBody(int kind, byte[] data) throws Refused {
        Reader reader = new Reader(data, "malformed");
        Body body = switch (kind) {
            case 1 -> Receipt.read(reader);
            case 2 -> Rows.read(reader);
            case 3 -> new Head(new Header(reader.take(250)));
            case 4 -> new Consistency(reader.string(), reader.string(), reader.hashes());
            default -> throw new Refused("malformed");
        };
        reader.finish();
        return body;
    }

    // Votes: docs/votes.md, sections 1 to 3 and 6

    /** Numbers of members are unsigned; what they have is a key or a signature. */
    record Member(long number, byte[] has) {
        static List<Member> read(Reader reader, int bytes) throws Refused {
            List<Member> members = new ArrayList<>();
            for (int count = reader.u16(); count > 0; count--) {
                Member next = new Member(reader.u64(), reader.take(bytes));
                boolean ascends = members.isEmpty() || Long.compareUnsigned(
                    members.get(members.size() - 1).number, next.number) < 0;
                require(ascends, "malformed");
                members.add(next);
            }
            return members;
        }
    }

    /** Whose votes count, and how many are needed. */
    static final class Electors {
        final List<Member> members;
        final long votes;
        final boolean holds;
        final byte[] hash;

        Electors(long votes, long liars, List<Member> members) {
            int count = members.size();
            this.members = members;
            this.votes = votes;
            holds = votes <= count && 2 * votes > count + liars;
            ByteBuffer data = ByteBuffer.allocate(6 + 40 * count);
            data.putShort((short) votes).putShort((short) liars).putShort((short) count);
            for (Member member : members) data.putLong(member.number).put(member.has);
            hash = sha256(ascii("tally elect v1\0\0"), data.array());
        }

        byte[] keyOf(long number) {
            for (Member member : members) if (member.number == number) return member.has;
            return null;
        }
    }

    record Certificate(byte[] ledgerId, long height, byte[] resultHash, byte[] electors,
            List<Member> votes) {
        static Certificate read(Reader reader) throws Refused {
            require(reader.u8() == 1, "malformed");
            Certificate read = new Certificate(reader.take(16), reader.u64(), reader.take(32),
                reader.take(32), Member.read(reader, 64));
            reader.finish();
            return read;
        }

        /** Whether these electors have made it, also for a block that is for others. */
        boolean isBy(byte[] ledger, Electors electors) {
            boolean holds = Arrays.equals(ledgerId, ledger) && votes.size() >= electors.votes;
            for (Member vote : votes) holds = holds && isVote(vote, ledger, electors);
            return holds;
        }

        private boolean isVote(Member vote, byte[] ledger, Electors electors) {
            byte[] key = electors.keyOf(vote.number);
            if (key == null) return false;
            ByteBuffer message = ByteBuffer.allocate(112).put(ascii("tally vote v1\0\0\0"));
            message.put(ledger).putLong(vote.number).putLong(height);
            message.put(resultHash).put(electors());
            try {
                return Key.isValid(Key.publicKey(key), message.array(), vote.has);
            } catch (GeneralSecurityException invalid) {
                return false;
            }
        }
    }

    record Succession(Electors next, Certificate certificate) {
        static Succession read(byte[] data) throws Refused {
            Reader reader = new Reader(data, "malformed");
            int votes = reader.u16();
            Electors next = new Electors(votes, reader.u16(), Member.read(reader, 32));
            return new Succession(next, Certificate.read(reader));
        }

        boolean holds(byte[] ledger, Electors before, Succession last) {
            long height = certificate.height;
            return next.holds && Arrays.equals(certificate.electors, next.hash)
                && !Arrays.equals(next.hash, before.hash)
                && (last == null || Long.compareUnsigned(height, last.certificate.height) > 0)
                && certificate.isBy(ledger, before);
        }
    }

    /** An anchor that leads to the first block. */
    record Votes(byte[] firstBlock, List<Succession> successions, List<Header> links,
            Certificate certificate) {
        static Votes read(Reader reader) throws Refused {
            byte[] firstBlock = reader.string();
            require(firstBlock.length >= 174, "malformed");
            new Order(start(firstBlock, 174));
            List<Succession> successions = new ArrayList<>();
            for (long count = reader.u32(); count > 0; count--) {
                successions.add(Succession.read(reader.string()));
            }
            List<Header> links = Header.list(reader);
            Reader certificate = new Reader(reader.string(), "malformed");
            return new Votes(firstBlock, successions, links, Certificate.read(certificate));
        }

        /** Electors of a first block, if it is the trusted one. */
        private Electors first(Order order, byte[] trusted) throws Refused {
            byte[] envelope = Arrays.copyOfRange(firstBlock, 174, firstBlock.length);
            boolean isIt = Arrays.equals(order.hash, trusted) && order.height == 0
                && order.envelopes == 1 && Arrays.equals(order.envelopesRoot, leafHash(envelope))
                && Arrays.equals(start(envelope, 16), ascii("tally genesis v2"));
            require(isIt, "first");
            byte[] parameters = Arrays.copyOfRange(envelope, 16, envelope.length);
            Reader reader = new Reader(parameters, "first");
            reader.string();
            reader.string();
            Map<String, String> others = new HashMap<>();
            for (long count = reader.u32(); count > 0; count--) {
                String name = new String(reader.string(), StandardCharsets.UTF_8);
                others.put(name, new String(reader.string(), StandardCharsets.UTF_8));
            }
            reader.finish();
            try {
                List<Member> members = new ArrayList<>();
                for (String member : others.getOrDefault("electors", "").split(", ")) {
                    String[] words = member.split(" ");
                    byte[] key = HEX.parseHex(words[1]);
                    members.add(new Member(Long.parseUnsignedLong(words[0]), key));
                }
                members.sort((a, b) -> Long.compareUnsigned(a.number, b.number));
                int count = members.size();
                long votes = Long.parseLong(others.getOrDefault("votes", "" + (2 * count / 3 + 1)));
                long liars = Long.parseLong(others.getOrDefault("liars", "" + (count - 1) / 3));
                Electors electors = new Electors(votes, liars, members);
                require(electors.holds, "first");
                return electors;
            } catch (IllegalArgumentException | IndexOutOfBoundsException unreadable) {
                throw new Refused("first");
            }
        }

        void check(Header header, byte[] trusted) throws Refused {
            Order order = new Order(start(firstBlock, 174));
            Electors electors = first(order, trusted);
            Succession before = null;
            for (Succession next : successions) {
                require(next.holds(order.ledgerId, electors, before), "electors");
                electors = next.next;
                before = next;
            }
            boolean isTheirs = Arrays.equals(certificate.electors, electors.hash)
                && certificate.isBy(order.ledgerId, electors);
            require(isTheirs, "votes");
            Header last = header.lastOf(links);
            boolean isIt = Arrays.equals(last.ledgerId, order.ledgerId)
                && last.height == certificate.height
                && Arrays.equals(last.hash, certificate.resultHash);
            require(isIt, "head");
        }
    }

    record Anchor(int kind, List<Header> headers, byte[] note, List<byte[]> hashes, Votes votes) {
        static Anchor read(Reader reader) throws Refused {
            int kind = reader.u8();
            return switch (kind) {
                case 0 -> new Anchor(kind, List.of(), null, null, null);
                case 1 -> new Anchor(kind, Header.list(reader), null, null, null);
                case 2 -> new Anchor(kind, List.of(), reader.string(), reader.hashes(), null);
                case 3 -> new Anchor(kind, List.of(), null, null, Votes.read(reader));
                default -> throw new Refused("malformed");
            };
        }

        void check(Header header, Trust trust) throws Refused {
            if (trust.key != null) {
                require(kind == 2, "trust");
                SignedHead signed = trust.key.open(note);
                String origin = "tally/" + HEX.formatHex(header.ledgerId);
                require(signed.origin.equals(origin), "origin");
                byte[] leaf = leafHash(header.hash);
                boolean holds = climbs(leaf, header.height, signed.size, hashes, signed.root);
                require(holds, "inclusion");
                return;
            }
            if (trust.firstBlock != null) {
                require(kind == 3, "trust");
                votes.check(header, trust.firstBlock);
                return;
            }
            require(Arrays.equals(header.lastOf(headers).hash, trust.head), "head");
        }
    }

    /** What a proof proves to a client that trusts this. */
    static String verify(byte[] proof, Trust trust) throws Refused {
        Reader reader = new Reader(proof, "malformed");
        require(reader.u8() == 1, "malformed");
        int kind = reader.u8();
        Body body = readBody(kind, reader.string());
        Anchor anchor = Anchor.read(reader);
        require(kind != 4 || anchor.kind == 0, "malformed");
        reader.finish();
        if (body.header() != null) anchor.check(body.header(), trust);
        return body.check(trust);
    }

    static Trust trusted(String text) throws GeneralSecurityException {
        if (text.matches("first:[0-9a-f]{64}")) {
            return new Trust(null, null, HEX.parseHex(text.substring(6)));
        }
        return text.matches("[0-9a-f]{64}") ? new Trust(HEX.parseHex(text), null, null)
            : new Trust(null, new Key(text), null);
    }

    static byte[] proofOf(Path file) throws IOException {
        byte[] data = Files.readAllBytes(file);
        if (data.length == 0 || data[0] != '{') return data;
        String text = new String(data, StandardCharsets.UTF_8);
        Matcher member = Pattern.compile("\"proof\"\\s*:\\s*\"([0-9a-f]*)\"").matcher(text);
        if (!member.find()) throw new IOException("the file has no member \"proof\"");
        return HEX.parseHex(member.group(1));
    }

    static void answerLines() throws IOException, GeneralSecurityException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        for (String line; (line = lines.readLine()) != null; ) {
            int space = line.indexOf(' ');
            Trust trust = trusted(line.substring(0, space));
            byte[] proof = HEX.parseHex(line.substring(space + 1));
            try {
                String says = verify(proof, trust);
                answers.append("ok ").append(says);
            } catch (Refused why) {
                answers.append("no ").append(why.getMessage());
            }
            answers.append('\n');
        }
        System.out.print(answers);
    }

    public static void main(String[] arguments) {
        try {
            if (arguments.length == 1 && arguments[0].equals("-")) {
                answerLines();
            } else if (arguments.length == 2) {
                System.out.println(verify(proofOf(Path.of(arguments[0])), trusted(arguments[1])));
            } else {
                throw new IOException("use: CheckProof FILE TRUST, or CheckProof -");
            }
        } catch (Refused why) {
            System.err.println("the proof does not hold: " + why.getMessage());
            System.exit(1);
        } catch (IOException | GeneralSecurityException | IllegalArgumentException fault) {
            System.err.println(fault.getMessage());
            System.exit(2);
        }
    }
}
