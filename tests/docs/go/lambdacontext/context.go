// Package lambdacontext stands in for the package of aws-lambda-go with this name.
package lambdacontext

import "context"

// LambdaContext describes an invocation.
type LambdaContext struct {
	AwsRequestID string
}

type key struct{}

// NewContext returns a context that FromContext reads.
func NewContext(parent context.Context, invocation *LambdaContext) context.Context {
	return context.WithValue(parent, key{}, invocation)
}

// FromContext returns the value that was passed to NewContext.
func FromContext(ctx context.Context) (*LambdaContext, bool) {
	invocation, found := ctx.Value(key{}).(*LambdaContext)
	return invocation, found
}
