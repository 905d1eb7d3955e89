package com.amazonaws.services.lambda.runtime;

/** Stands in for the interface of aws-lambda-java-core with this name, which only Maven Central has. */
public interface Context {
    String getAwsRequestId();
}
