package com.amazonaws.services.lambda.runtime.api.client;

import com.amazonaws.services.lambda.runtime.RequestHandler;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Stands in for the class of aws-lambda-java-runtime-interface-client with this name, which only Maven Central has. It
 * speaks Lambda's Runtime API for a handler of maps, and reads as much JSON as the events of docs/start/function.md
 * have: objects, strings, and whole numbers.
 */
public class AWSLambda {
    private static final Pattern TOKEN = Pattern.compile("\\s*(?:\"([^\"\\\\]*)\"|(\\d+)|([{}:,]))\\s*");
    private static final HttpClient CLIENT = HttpClient.newHttpClient();
    private static final String INVOCATIONS =
            "http://" + System.getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/";

    public static void main(String[] arguments) throws Exception {
        @SuppressWarnings("unchecked")
        var handler = (RequestHandler<Object, Object>)
                Class.forName(arguments[0]).getDeclaredConstructor().newInstance();
        while (true) {
            var next = send(HttpRequest.newBuilder(URI.create(INVOCATIONS + "next")));
            var id = next.headers().firstValue("Lambda-Runtime-Aws-Request-Id").orElseThrow();
            try {
                handler.handleRequest(value(TOKEN.matcher(next.body())), () -> id);
                post(id + "/response", "null");
            } catch (Throwable thrown) {
                post(id + "/error", "{\"errorType\":\"%s\",\"errorMessage\":\"%s\"}"
                        .formatted(thrown.getClass().getName(), thrown.getMessage()));
            }
        }
    }

    private static void post(String path, String body) throws Exception {
        send(HttpRequest.newBuilder(URI.create(INVOCATIONS + path)).POST(BodyPublishers.ofString(body)));
    }

    private static HttpResponse<String> send(HttpRequest.Builder request) throws Exception {
        return CLIENT.send(request.build(), BodyHandlers.ofString());
    }

    /** Reads a value. At the end of an object, that is null. */
    private static Object value(Matcher tokens) {
        if (!tokens.find()) throw new IllegalArgumentException("an event that ends too early");
        if (tokens.group(1) != null) return tokens.group(1);
        if (tokens.group(2) != null) return Integer.valueOf(tokens.group(2));
        return switch (tokens.group(3)) {
            case "{" -> object(tokens);
            case "}" -> null;
            default -> value(tokens); // between two values
        };
    }

    private static Map<String, Object> object(Matcher tokens) {
        var read = new LinkedHashMap<String, Object>();
        while (value(tokens) instanceof String key) read.put(key, value(tokens));
        return read;
    }
}
