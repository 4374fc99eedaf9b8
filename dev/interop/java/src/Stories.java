import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Runs stories, each with names of its own, and prints a line for each: "pass NAME" or "FAIL NAME: why".
 *
 * Stories BOOTSTRAP PREFIX own|shared [NAME…]
 */
public final class Stories {
    interface Story {
        void tell(Bench bench) throws Exception;
    }

    static final long LIMIT_SECONDS = 120;

    public static void main(String[] arguments) throws Exception {
        Map<String, Story> stories = new LinkedHashMap<>();
        ProducerStories.all(stories);
        GroupStories.all(stories);
        AdminStories.all(stories);
        List<String> only = List.of(arguments).subList(3, arguments.length);
        int number = 0;
        for (Map.Entry<String, Story> story : stories.entrySet()) {
            number++;
            if (!only.isEmpty() && !only.contains(story.getKey())) continue;
            long began = System.nanoTime();
            String outcome = run(story.getValue(), new Bench(arguments[0], arguments[1] + "-" + number, arguments[2].equals("shared")));
            System.out.printf("%s %s%s in %d ms%n", outcome.isEmpty() ? "pass" : "FAIL", story.getKey(), outcome.isEmpty() ? "" : ": " + outcome,
                (System.nanoTime() - began) / 1_000_000);
        }
        // A story that hangs has left its threads.
        System.exit(0);
    }

    static String run(Story story, Bench bench) throws InterruptedException {
        String[] outcome = {"it did not end in " + LIMIT_SECONDS + " s"};
        CountDownLatch done = new CountDownLatch(1);
        Thread thread = new Thread(() -> {
            try {
                story.tell(bench);
                outcome[0] = "";
            } catch (Throwable error) {
                outcome[0] = error.toString().replace('\n', ' ');
                error.printStackTrace();
            }
            done.countDown();
        });
        thread.start();
        if (!done.await(LIMIT_SECONDS, TimeUnit.SECONDS)) {
            for (StackTraceElement at : thread.getStackTrace()) System.err.println("hangs at " + at);
        }
        return outcome[0];
    }
}
