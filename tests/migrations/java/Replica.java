import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** What the replicas of both tools share: where they go, and when they start. */
final class Replica {
    static final String FOLDER = System.getenv("MIGRATIONS_FOLDER");
    static final String URL = "jdbc:postgresql://127.0.0.1:" + System.getenv("MIGRATIONS_PORT") + "/"
            + System.getenv("MIGRATIONS_DATABASE") + "?sslmode=disable&ApplicationName=" + System.getenv("MIGRATIONS_NAME");

    /** Says that we are ready, and waits until all are. */
    static void awaitStart() throws IOException {
        Files.createFile(Path.of(System.getenv("MIGRATIONS_READY")));
        System.in.readAllBytes();
    }

    private Replica() {}
}
