import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/** What DatabaseMetaData says of a schema. */
public class Metadata {
    public static void main(String[] arguments) throws SQLException {
        String url = "jdbc:" + arguments[0] + "?user=" + arguments[1];
        try (Connection connection = DriverManager.getConnection(url)) {
            create(connection);
            DatabaseMetaData data = connection.getMetaData();
            String[] tables = {"TABLE"};
            expect("tables", List.of("metadata|TABLE", "metadata_line|TABLE"),
                data.getTables(null, "public", "metadata%", tables), "TABLE_NAME", "TABLE_TYPE");
            expect("columns",
                List.of("id|int8|19|0|NO", "name|varchar|40|0|YES", "amount|numeric|12|2|NO"),
                data.getColumns(null, "public", "metadata", "%"),
                "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "IS_NULLABLE");
            expect("primary key", List.of("metadata_id|1", "line|2"),
                data.getPrimaryKeys(null, "public", "metadata_line"), "COLUMN_NAME", "KEY_SEQ");
            List<String> references = List.of("metadata|id|metadata_line|metadata_id|1");
            String[] keys = {
                "PKTABLE_NAME", "PKCOLUMN_NAME", "FKTABLE_NAME", "FKCOLUMN_NAME", "KEY_SEQ"};
            expect("imported keys", references,
                data.getImportedKeys(null, "public", "metadata_line"), keys);
            expect("exported keys", references,
                data.getExportedKeys(null, "public", "metadata"), keys);
            expect("indexes",
                List.of("metadata_name_key|f|1|name", "metadata_pkey|f|1|id",
                    "metadata_amount_name_idx|t|1|amount", "metadata_amount_name_idx|t|2|name"),
                data.getIndexInfo(null, "public", "metadata", false, false),
                "INDEX_NAME", "NON_UNIQUE", "ORDINAL_POSITION", "COLUMN_NAME");
            expect("functions", List.of("metadata_sum"),
                data.getFunctions(null, "public", "metadata%"), "FUNCTION_NAME");
            expect("schemas", List.of("information_schema", "pg_catalog", "public"),
                data.getSchemas(), "TABLE_SCHEM");
        }
    }

    static void create(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS metadata_line");
            statement.execute("DROP TABLE IF EXISTS metadata");
            statement.execute("CREATE TABLE metadata (id bigint PRIMARY KEY,"
                + " name varchar(40) UNIQUE, amount numeric(12,2) NOT NULL)");
            statement.execute("CREATE INDEX metadata_amount_name_idx ON metadata (amount, name)");
            statement.execute("CREATE TABLE metadata_line (line int NOT NULL,"
                + " metadata_id bigint NOT NULL REFERENCES metadata (id),"
                + " PRIMARY KEY (metadata_id, line))");
            statement.execute("CREATE OR REPLACE FUNCTION metadata_sum(a int, b int) RETURNS int"
                + " LANGUAGE sql AS 'SELECT a + b'");
        }
    }

    static void expect(String what, List<String> expected, ResultSet rows, String... columns)
            throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) {
            List<String> values = new ArrayList<>();
            for (String column : columns) {
                values.add(rows.getString(column));
            }
            found.add(String.join("|", values));
        }
        if (!expected.equals(found)) {
            throw new AssertionError(what + ": expected " + expected + ", got " + found);
        }
    }
}
