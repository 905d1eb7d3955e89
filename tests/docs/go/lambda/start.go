// Package lambda stands in for the package of aws-lambda-go with this name, which only Go's module proxy has. It has
// what the function in docs/start/function.md uses, and speaks Lambda's Runtime API.
//
// It opens connections itself, because a build of net/http would take as long as all other tests of the documentation.
package lambda

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"reflect"
	"strconv"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

const invocations = "/2018-06-01/runtime/invocation/"

// Start calls the handler for each event until the process ends.
func Start[T any](handler func(context.Context, T) error) {
	for {
		header, event := call("GET", "next", nil)
		id := header.Get("Lambda-Runtime-Aws-Request-Id")
		ctx := lambdacontext.NewContext(context.Background(), &lambdacontext.LambdaContext{AwsRequestID: id})
		var decoded T
		check(json.Unmarshal(event, &decoded))
		if err := handler(ctx, decoded); err != nil {
			failure := map[string]string{"errorMessage": err.Error(), "errorType": name(err)}
			body, _ := json.Marshal(failure)
			call("POST", id+"/error", body)
		} else {
			call("POST", id+"/response", []byte("null"))
		}
	}
}

// The name of an error, as aws-lambda-go reports it to Lambda.
func name(err error) string {
	kind := reflect.TypeOf(err)
	if kind.Kind() == reflect.Ptr {
		kind = kind.Elem()
	}
	return kind.Name()
}

func call(method, path string, body []byte) (textproto.MIMEHeader, []byte) {
	host := os.Getenv("AWS_LAMBDA_RUNTIME_API")
	connection, err := net.Dial("tcp", host)
	check(err)
	defer connection.Close()
	_, err = fmt.Fprintf(connection, "%s %s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		method, invocations, path, host, len(body), body)
	check(err)
	answer := textproto.NewReader(bufio.NewReader(connection))
	_, err = answer.ReadLine()
	check(err)
	header, err := answer.ReadMIMEHeader()
	check(err)
	length, _ := strconv.Atoi(header.Get("Content-Length"))
	content := make([]byte, length)
	_, err = io.ReadFull(answer.R, content)
	check(err)
	return header, content
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
