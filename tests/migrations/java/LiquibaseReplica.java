import java.nio.file.Path;
import java.sql.DriverManager;
import java.util.Map;
import liquibase.Liquibase;
import liquibase.Scope;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.resource.DirectoryResourceAccessor;

/** One replica that migrates by Liquibase: {@code LiquibaseReplica prepare|migrate|mend}. */
final class LiquibaseReplica {
    public static void main(String[] arguments) throws Exception {
        var steps = new DirectoryResourceAccessor(Path.of(Replica.FOLDER));
        Replica.awaitStart();
        // It looks again every ten seconds otherwise.
        Scope.child(Map.of("liquibase.changelogLockPollRate", 1), () -> {
            var connection = new JdbcConnection(DriverManager.getConnection(Replica.URL, "u", ""));
            var database = DatabaseFactory.getInstance().findCorrectDatabaseImplementation(connection);
            try (var liquibase = new Liquibase("java/changelog.yaml", steps, database)) {
                switch (arguments[0]) {
                    case "prepare" -> liquibase.tag("before");
                    case "mend" -> liquibase.forceReleaseLocks();
                    default -> liquibase.update("");
                }
            }
        });
    }
}
