import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;

/** Inserts through pgjdbc, which is told all hosts, while nodes are killed. */
public class Failover {
    static final long PATIENCE_MS = 30_000;

    static String url() {
        String[] hosts = System.getenv("HOSTS").split(",");
        String[] ports = System.getenv("PORTS").split(",");
        StringBuilder all = new StringBuilder();
        for (int node = 0; node < hosts.length; node++) {
            all.append(node == 0 ? "" : ",").append(hosts[node]).append(":").append(ports[node]);
        }
        return "jdbc:postgresql://" + all + "/tally?user=tally&targetServerType=primary"
            + "&connectTimeout=5&loginTimeout=8&socketTimeout=10&hostRecheckSeconds=1"
            + "&options=-c%20tally.catch_up_timeout=2s%20-c%20tally.commit_timeout=5s";
    }

    /** Whether it ran now, or had run when its answer was lost. */
    static void insert(Connection connection, long id) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.execute("SET tally.transaction_key = 'pgjdbc " + id + "'");
            try {
                statement.execute("INSERT INTO told_pgjdbc VALUES (" + id + ")");
            } catch (SQLException error) {
                // Told of a copy of it, or of this one as another transaction of its key.
                if (!"42710".equals(error.getSQLState()) && !"22023".equals(error.getSQLState())) {
                    throw error;
                }
                statement.execute("RESET tally.transaction_key");
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        long ends = System.currentTimeMillis() + 1_000 * Long.parseLong(System.getenv("LOAD_SECONDS"));
        Connection connection = null;
        long longest = 0;
        for (long id = 0; System.currentTimeMillis() < ends; id++) {
            long began = System.currentTimeMillis();
            while (true) {
                try {
                    if (connection == null) {
                        connection = DriverManager.getConnection(url());
                    }
                    insert(connection, id);
                    break;
                } catch (SQLException error) {
                    System.err.println("reconnected: " + error.getMessage().replace('\n', ' '));
                    if (System.currentTimeMillis() - began > PATIENCE_MS) {
                        throw error;
                    }
                    if (connection != null) {
                        try {
                            connection.close();
                        } catch (SQLException ignored) {
                            // It is gone.
                        }
                        connection = null;
                    }
                    Thread.sleep(100);
                }
            }
            longest = Math.max(longest, System.currentTimeMillis() - began);
            System.out.println(id);
        }
        System.err.println("longest wait: " + longest / 1000.0);
    }
}
