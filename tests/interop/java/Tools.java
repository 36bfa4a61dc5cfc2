// Runs Apache Kafka's command tools one after another in one Java machine, which starts once:
//
//     java -cp "LIBS/*" Tools.java
//
// A line of standard input is one command: the class with its main, and its arguments, between tabs. What it
// prints follows on standard output with "| " in front of each line, and then "exit CODE".

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Arrays;

public class Tools {
    static class Ended extends Error {
        final int code;

        Ended(int code, String message) {
            super(message, null, false, false);
            this.code = code;
        }
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream captured = new PrintStream(printed, true);
        System.setOut(captured);
        System.setErr(captured);
        throwAtExit(captured);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        answers.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            int code = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            captured.flush();
            printed.toString().lines().forEach(each -> answers.println("| " + each));
            printed.reset();
            answers.println("exit " + code);
            answers.flush();
        }
    }

    private static void throwAtExit(PrintStream captured) throws Exception {
        Class<?> exit = exitOfKafka();
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object thrower = Proxy.newProxyInstance(
                Tools.class.getClassLoader(), new Class<?>[] {procedure}, (proxy, method, given) -> {
            if (given[1] != null) {
                captured.println(given[1]);
            }
            throw new Ended((Integer) given[0], (String) given[1]);
        });
        exit.getMethod("setExitProcedure", procedure).invoke(null, thrower);
    }

    /** Apache Kafka 4.4 has moved it. */
    private static Class<?> exitOfKafka() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException older) {
            return Class.forName("org.apache.kafka.common.utils.Exit");
        }
    }

    private static int run(String name, String[] arguments) throws Exception {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Ended) {
                return ((Ended) error.getCause()).code;
            }
            error.getCause().printStackTrace();
            return 1;
        }
    }
}
