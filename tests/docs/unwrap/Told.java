import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/** Checks the code in the kit's README, which test_docs.py puts into the class Kit, and the cases into the class Cases. */
public class Told {
    static Map<String, Object> map(Object... of) {
        var made = new LinkedHashMap<String, Object>();
        for (int nth = 0; nth < of.length; nth += 2) made.put((String) of[nth], of[nth + 1]);
        return made;
    }

    static void check(Object event, Object payload, boolean isEnvelope, String key) {
        var unwrapped = Kit.unwrap(event);
        var told = new Kit().handleRequest(event, () -> "own");
        if (!Objects.equals(unwrapped.payload(), payload) || unwrapped.retry().isEmpty() == isEnvelope
                || !key.equals(told)) throw new AssertionError(event + " gave " + unwrapped + " and " + told);
    }

    public static void main(String[] arguments) {
        Cases.check();
    }
}
