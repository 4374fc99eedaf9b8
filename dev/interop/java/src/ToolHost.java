import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs the main method of Kafka's tools one after the other in one JVM, for a JVM of its own costs each a second or more.
 *
 * stdin: a line of fields with tabs between, first what the tool shall have on its stdin ("\n" for a new line), then its class, then its
 * arguments. stdout: a line "STATUS LENGTH LENGTH", then its stdout and its stderr, of these many bytes.
 */
public final class ToolHost {
    /** Ends a tool where it would end the JVM. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1;

        Ended() {
            super(null, null, false, false);
        }
    }

    /** What counts is what a tool had said when it first wanted to end: some catch everything, and would go on to say that they failed. */
    private static final class Run {
        final List<Runnable> hooks = new ArrayList<>();
        final ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
        int status = -1, outLength, errLength;

        void ends(int with) {
            if (status >= 0) return;
            System.out.flush();
            System.err.flush();
            status = with;
            outLength = out.size();
            errLength = err.size();
        }
    }

    private static volatile Run now;

    public static void main(String[] arguments) throws Exception {
        InputStream commands = System.in;
        PrintStream answers = System.out;
        Exit.Procedure end = (status, message) -> {
            now.ends(status);
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        // Consoles close their clients, which flushes them, when the JVM ends.
        Exit.setShutdownHookAdder((name, hook) -> now.hooks.add(hook));
        BufferedReader lines = new BufferedReader(new InputStreamReader(commands, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] field = line.split("\t", -1);
            now = new Run();
            System.setIn(new ByteArrayInputStream(field[0].replace("\\n", "\n").getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(now.out, true));
            System.setErr(new PrintStream(now.err, true));
            run(field[1], Arrays.copyOfRange(field, 2, field.length));
            for (Runnable hook : now.hooks) hook.run();
            answers.print(now.status + " " + now.outLength + " " + now.errLength + "\n");
            answers.write(now.out.toByteArray(), 0, now.outLength);
            answers.write(now.err.toByteArray(), 0, now.errLength);
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String tool, String[] arguments) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            now.ends(0);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) thrown.getCause().printStackTrace();
            now.ends(1);
        }
    }
}
