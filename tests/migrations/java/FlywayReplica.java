import org.flywaydb.core.Flyway;
import org.flywaydb.database.postgresql.PostgreSQLConfigurationExtension;

/** One replica that migrates by Flyway: {@code FlywayReplica true|false migrate}, where the first is its transactional lock. */
final class FlywayReplica {
    public static void main(String[] arguments) throws Exception {
        var configuration = Flyway.configure()
                .dataSource(Replica.URL, "u", "")
                .locations("filesystem:" + Replica.FOLDER + "/steps")
                .sqlMigrationPrefix("")
                .sqlMigrationSeparator("_")
                .sqlMigrationSuffixes(".up.sql");
        configuration
                .getConfigurationExtension(PostgreSQLConfigurationExtension.class)
                .setTransactionalLock(Boolean.parseBoolean(arguments[0]));
        var flyway = configuration.load();
        Replica.awaitStart();
        flyway.migrate();
    }
}
