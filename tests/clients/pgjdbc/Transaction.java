import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.OffsetDateTime;
import java.util.Arrays;
import java.util.UUID;

/** One transaction test through pgjdbc: extended protocol, server-prepared, binary transfer. */
public class Transaction {
    static final OffsetDateTime OPENED = OffsetDateTime.parse("2026-01-02T03:04:05.678901Z");
    static final UUID TOKEN = UUID.fromString("6f1a0b52-3c9e-4b57-9a52-0d6a1f1f2a33");
    static final byte[] PAYLOAD = {0, (byte) 0xff, 0x10};
    static final String INSERT = "INSERT INTO pgjdbc_accounts VALUES (?, ?, ?, ?, ?, ?, ?)";

    public static void main(String[] arguments) throws SQLException {
        // A threshold of -1 asks for server-prepared statements and binary results at once.
        String url = "jdbc:" + arguments[0] + "?prepareThreshold=-1&user=" + arguments[1];
        try (Connection connection = DriverManager.getConnection(url)) {
            create(connection);
            commit(connection);
            rollBack(connection);
            fail(connection);
            call(connection);
            batch(connection);
        }
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void create(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS pgjdbc_accounts");
            statement.execute("""
                CREATE TABLE pgjdbc_accounts (
                    id bigint PRIMARY KEY, owner text NOT NULL,
                    amount numeric(12,2) NOT NULL CHECK (amount >= 0),
                    opened timestamptz, payload bytea, token uuid, note varchar(20))""");
            statement.execute("""
                CREATE OR REPLACE PROCEDURE pgjdbc_move(
                    giver bigint, receiver bigint, sum_moved numeric)
                LANGUAGE plpgsql AS $$
                BEGIN
                    UPDATE pgjdbc_accounts SET amount = amount - sum_moved WHERE id = giver;
                    UPDATE pgjdbc_accounts SET amount = amount + sum_moved WHERE id = receiver;
                END;
                $$""");
        }
    }

    static void insert(PreparedStatement insert, long id, String owner, String amount,
            boolean filled) throws SQLException {
        insert.setLong(1, id);
        insert.setString(2, owner);
        insert.setBigDecimal(3, new BigDecimal(amount));
        insert.setObject(4, filled ? OPENED : null);
        insert.setBytes(5, filled ? PAYLOAD : null);
        insert.setObject(6, filled ? TOKEN : null);
        insert.setString(7, null);
        check(insert.executeUpdate() == 1, "one row is inserted");
    }

    static void commit(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (PreparedStatement insert = connection.prepareStatement(INSERT)) {
            insert(insert, 1, "ada", "100.50", true);
            insert(insert, 2, "bob", "7", false);
        }
        connection.commit();
        String text = "SELECT * FROM pgjdbc_accounts WHERE id = ?";
        try (PreparedStatement select = connection.prepareStatement(text)) {
            for (int round = 0; round < 3; round++) {
                select.setLong(1, 1);
                try (ResultSet row = select.executeQuery()) {
                    check(row.next() && row.getLong("id") == 1, "the row is there");
                    check(row.getString("owner").equals("ada"), "text");
                    check(row.getBigDecimal("amount").equals(new BigDecimal("100.50")), "numeric");
                    OffsetDateTime opened = row.getObject("opened", OffsetDateTime.class);
                    check(opened.isEqual(OPENED), "timestamptz " + opened);
                    check(Arrays.equals(row.getBytes("payload"), PAYLOAD), "bytea");
                    check(row.getObject("token").equals(TOKEN), "uuid");
                    check(row.getString("note") == null && row.wasNull(), "null");
                }
            }
        }
        connection.commit();
    }

    static void rollBack(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            check(statement.executeUpdate("DELETE FROM pgjdbc_accounts") == 2, "two rows go");
            connection.rollback();
            try (ResultSet row = statement.executeQuery("SELECT count(*) FROM pgjdbc_accounts")) {
                check(row.next() && row.getLong(1) == 2, "rollback brings them back");
            }
        }
        connection.commit();
    }

    static void fail(Connection connection) throws SQLException {
        try (PreparedStatement insert = connection.prepareStatement(INSERT)) {
            insert(insert, 1, "eve", "0", false);
            throw new AssertionError("a duplicate key was accepted");
        } catch (SQLException error) {
            check("23505".equals(error.getSQLState()), "SQLSTATE " + error.getSQLState());
        }
        try (Statement statement = connection.createStatement()) {
            statement.execute("SELECT 1");
            throw new AssertionError("a failed transaction went on");
        } catch (SQLException error) {
            check("25P02".equals(error.getSQLState()), "SQLSTATE " + error.getSQLState());
        }
        connection.rollback();
    }

    static void call(Connection connection) throws SQLException {
        connection.setAutoCommit(true);
        String text = "CALL pgjdbc_move(?, ?, ?)";
        try (PreparedStatement call = connection.prepareStatement(text)) {
            call.setLong(1, 1);
            call.setLong(2, 2);
            call.setBigDecimal(3, new BigDecimal("0.50"));
            call.execute();
        }
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(
                    "SELECT amount FROM pgjdbc_accounts ORDER BY id")) {
            check(rows.next() && rows.getString(1).equals("100.00"), "the giver gave");
            check(rows.next() && rows.getString(1).equals("7.50"), "the receiver received");
        }
    }

    static void batch(Connection connection) throws SQLException {
        String text = "INSERT INTO pgjdbc_accounts (id, owner, amount) VALUES (?, ?, ?)";
        try (PreparedStatement insert = connection.prepareStatement(text)) {
            for (int id = 10; id < 20; id++) {
                insert.setLong(1, id);
                insert.setString(2, "customer " + id);
                insert.setBigDecimal(3, BigDecimal.valueOf(id));
                insert.addBatch();
            }
            check(Arrays.stream(insert.executeBatch()).sum() == 10, "ten rows by batch");
        }
    }
}
