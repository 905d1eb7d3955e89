// Answers the cases on standard input with the code in the kit's README, which test_docs.py puts beside this file.
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

func place(order json.RawMessage, key string) (any, error) { return key, nil }

type answer struct {
	Payload json.RawMessage `json:"payload"`
	Retry   map[string]any  `json:"retry"`
	Key     any             `json:"key"`
}

func main() {
	var cases []struct{ Event json.RawMessage }
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		panic(err)
	}
	ctx := lambdacontext.NewContext(context.Background(), &lambdacontext.LambdaContext{AwsRequestID: "own"})
	answers := []answer{}
	for _, each := range cases {
		payload, retry := unwrap(each.Event)
		key, _ := handler(ctx, each.Event)
		answers = append(answers, answer{payload, retry, key})
	}
	json.NewEncoder(os.Stdout).Encode(answers)
}
