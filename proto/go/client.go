// Package dfsmr has workers and clients of dfsmr, the distributed finite state machine runner.
package dfsmr

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	v1 "dfsmr/v1"
)

// Client has all methods of all services, with the generated requests. What is refused is an
// *Error. It may be shared by goroutines.
type Client struct {
	v1.RunnerServiceClient
	v1.ScheduleServiceClient
	v1.AgentServiceClient
	v1.PackageServiceClient
	v1.NamespaceServiceClient
	v1.SecretServiceClient
	v1.TokenServiceClient
	v1.BackupServiceClient
	v1.ViewServiceClient
	v1.BulkServiceClient

	conn *grpc.ClientConn
}

// NewClient makes a client of the server at "host:port", or of several with commas between: it stays
// with one, and goes on to the next when that cannot be reached. Empty: DFSMR_SERVER of the
// environment, else localhost:3004.
func NewClient(address string, of ...Option) (*Client, error) {
	return dial(address, collect(of))
}

func dial(address string, o options) (*Client, error) {
	if address == "" {
		address = os.Getenv("DFSMR_SERVER")
	}
	if address == "" {
		address = "localhost:3004"
	}
	var state resolver.State
	for _, one := range strings.Split(address, ",") {
		host, _, err := net.SplitHostPort(strings.TrimSpace(one))
		if err != nil {
			return nil, fmt.Errorf("%q is no address: one is host:port, or several of them with commas between", address)
		}
		state.Addresses = append(state.Addresses,
			resolver.Address{Addr: strings.TrimSpace(one), ServerName: host})
	}
	transport, err := o.credentials()
	if err != nil {
		return nil, err
	}
	list := manual.NewBuilderWithScheme("dfsmr")
	list.InitialState(state)
	pause := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 10 * time.Second}
	conn, err := grpc.Dial("dfsmr:///"+state.Addresses[0].Addr,
		grpc.WithResolvers(list),
		grpc.WithTransportCredentials(transport),
		grpc.WithPerRPCCredentials(bearer{o}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pause, MinConnectTimeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithUnaryInterceptor(o.unary),
		grpc.WithStreamInterceptor(o.stream))
	if err != nil {
		return nil, err
	}
	return &Client{
		v1.NewRunnerServiceClient(conn), v1.NewScheduleServiceClient(conn),
		v1.NewAgentServiceClient(conn), v1.NewPackageServiceClient(conn),
		v1.NewNamespaceServiceClient(conn), v1.NewSecretServiceClient(conn),
		v1.NewTokenServiceClient(conn), v1.NewBackupServiceClient(conn),
		v1.NewViewServiceClient(conn), v1.NewBulkServiceClient(conn), conn,
	}, nil
}

// Close ends all calls.
func (c *Client) Close() error { return c.conn.Close() }

// Check says what Define would do, and fails as it would.
func (c *Client) Check(ctx context.Context, request *v1.DefineRequest) (*v1.DefineResponse, error) {
	request = proto.Clone(request).(*v1.DefineRequest)
	request.ValidateOnly = true
	return c.Define(ctx, request)
}

// Get returns an instance.
func (c *Client) Get(ctx context.Context, id string) (*v1.Instance, error) {
	return c.GetInstance(ctx, &v1.GetInstanceRequest{Id: id})
}

// Wait returns an instance once it has stopped.
func (c *Client) Wait(ctx context.Context, request *v1.GetInstanceRequest) (*v1.Instance, error) {
	for pause := 20 * time.Millisecond; ; {
		instance, err := c.GetInstance(ctx, request)
		if err != nil || instance.State == v1.Instance_STOPPED {
			return instance, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return instance, ctx.Err()
		}
		if pause = pause * 3 / 2; pause > time.Second {
			pause = time.Second
		}
	}
}

// Pages walks through a list: for p.Next() { p.Value() }, and then p.Err().
type Pages[T any] struct {
	fetch func(token string) ([]T, string, error)
	items []T
	token string
	last  bool
	value T
	err   error
}

// Next moves to the next item. False: that was the last, or Err says why there is none.
func (p *Pages[T]) Next() bool {
	for len(p.items) == 0 && !p.last {
		p.items, p.token, p.err = p.fetch(p.token)
		p.last = p.err != nil || p.token == ""
	}
	if len(p.items) == 0 {
		return false
	}
	p.value, p.items = p.items[0], p.items[1:]
	return true
}

// Value is where Next has moved to.
func (p *Pages[T]) Value() T { return p.value }

// Err is what ended the list, if it is not its end.
func (p *Pages[T]) Err() error { return p.err }

// PagesOf walks through any list: fetch returns the page of a token, and the token of the next.
func PagesOf[T any](fetch func(token string) (items []T, next string, err error)) *Pages[T] {
	return &Pages[T]{fetch: fetch}
}

// List walks through instances.
func (c *Client) List(ctx context.Context, request *v1.ListInstancesRequest) *Pages[*v1.Instance] {
	request = proto.Clone(request).(*v1.ListInstancesRequest)
	return PagesOf(func(token string) ([]*v1.Instance, string, error) {
		request.PageToken = token
		reply, err := c.ListInstances(ctx, request)
		return reply.GetInstances(), reply.GetNextPageToken(), err
	})
}

// History walks through all that happened to an instance.
func (c *Client) History(ctx context.Context, request *v1.GetHistoryRequest) *Pages[*v1.Change] {
	request = proto.Clone(request).(*v1.GetHistoryRequest)
	return PagesOf(func(token string) ([]*v1.Change, string, error) {
		request.PageToken = token
		reply, err := c.GetHistory(ctx, request)
		return reply.GetChanges(), reply.GetNextPageToken(), err
	})
}

// Schedules walks through schedules.
func (c *Client) Schedules(ctx context.Context, request *v1.ListSchedulesRequest) *Pages[*v1.Schedule] {
	request = proto.Clone(request).(*v1.ListSchedulesRequest)
	return PagesOf(func(token string) ([]*v1.Schedule, string, error) {
		request.PageToken = token
		reply, err := c.ListSchedules(ctx, request)
		return reply.GetSchedules(), reply.GetNextPageToken(), err
	})
}

// Feed is what Follow returns: for f.Next() { f.Change() }, and then f.Err().
type Feed struct {
	ctx     context.Context
	client  *Client
	request *v1.ChangesRequest
	stream  v1.RunnerService_ChangesClient
	got     *v1.ChangesResponse
	change  *v1.Change
	err     error
}

// Follow walks through changes, in order, without gaps, also when the server was away: it goes on
// from the last cursor until ctx is done; with request.Follow false until the present.
func (c *Client) Follow(ctx context.Context, request *v1.ChangesRequest) *Feed {
	return &Feed{ctx: ctx, client: c, request: proto.Clone(request).(*v1.ChangesRequest)}
}

// Change is where Next has moved to.
func (f *Feed) Change() *v1.Change { return f.change }

// Cursor is where another feed goes on after the last change that this one gave out.
func (f *Feed) Cursor() string { return f.request.After }

// Err is what ended the feed; nil where ctx did, or the present.
func (f *Feed) Err() error { return f.err }

// Next waits for the next change.
func (f *Feed) Next() bool {
	for pause := 100 * time.Millisecond; ; {
		for f.got != nil {
			if len(f.got.Changes) == 0 {
				f.request.After, f.got = f.got.Cursor, nil
				break
			}
			f.change, f.got.Changes = f.got.Changes[0], f.got.Changes[1:]
			if len(f.got.Changes) == 0 {
				f.request.After, f.got = f.got.Cursor, nil
			}
			return true
		}
		got, err := f.receive()
		if err == nil {
			f.got, pause = got, 100*time.Millisecond
			continue
		}
		f.stream = nil
		ended := errors.Is(err, io.EOF)
		if f.ctx.Err() != nil || (ended && !f.request.Follow) {
			return false
		}
		if !ended && !again(err) {
			f.err = err
			return false
		}
		select {
		case <-time.After(around(pause)):
		case <-f.ctx.Done():
			return false
		}
		pause = longer(pause)
	}
}

func (f *Feed) receive() (*v1.ChangesResponse, error) {
	if f.stream == nil {
		stream, err := f.client.Changes(f.ctx, f.request)
		if err != nil {
			return nil, err
		}
		f.stream = stream
	}
	return f.stream.Recv()
}

// around is a pause give or take a fifth.
func around(pause time.Duration) time.Duration {
	return time.Duration(float64(pause) * (0.8 + 0.4*rand.Float64()))
}

func longer(pause time.Duration) time.Duration {
	if pause *= 2; pause > 10*time.Second {
		return 10 * time.Second
	}
	return pause
}

// How calls are made.

func (o options) credentials() (credentials.TransportCredentials, error) {
	if o.tlsCA == "" && o.tlsCert == "" && o.tlsKey == "" {
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.tlsCA != "" && o.tlsCA != "system" {
		pem, err := os.ReadFile(o.tlsCA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate in PEM", o.tlsCA)
		}
	}
	if o.tlsCert != "" || o.tlsKey != "" {
		pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), nil
}

// bearer reads a token's file for every call, so that it can be replaced.
type bearer struct{ options }

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token := b.token
	if b.tokenFile != "" {
		read, err := os.ReadFile(b.tokenFile)
		if err != nil {
			return nil, err
		}
		token = strings.TrimSpace(string(read))
	}
	if token == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

func (b bearer) RequireTransportSecurity() bool { return false }

func (o options) unary(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, of ...grpc.CallOption) error {
	if o.namespace != "" {
		request = o.named(request.(proto.Message))
	}
	var trailer metadata.MD
	err := invoke(ctx, method, request, reply, conn, append(of, grpc.Trailer(&trailer))...)
	return ofCall(err, trailer)
}

func (o options) stream(ctx context.Context, description *grpc.StreamDesc, conn *grpc.ClientConn,
	method string, open grpc.Streamer, of ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, description, conn, method, of...)
	if err != nil {
		return nil, ofCall(err, nil)
	}
	if o.namespace != "" {
		stream = &namedStream{ClientStream: stream, options: o}
	}
	return errorStream{stream}, nil
}

// namedStream is one whose first message says which namespace all are of.
type namedStream struct {
	grpc.ClientStream
	options
	begun bool
}

func (s *namedStream) SendMsg(message any) error {
	if !s.begun {
		s.begun, message = true, s.named(message.(proto.Message))
	}
	return s.ClientStream.SendMsg(message)
}

func (o options) named(request proto.Message) proto.Message {
	request = proto.Clone(request)
	fillIn(request.ProtoReflect(), o.namespace)
	return request
}

// fillIn puts a request, and the requests in it, into a namespace where they name none; what is in one
// that does belongs to that.
func fillIn(message protoreflect.Message, namespace string) {
	if field := message.Descriptor().Fields().ByName("namespace"); field != nil {
		if own := message.Get(field).String(); own != "" {
			namespace = own
		} else {
			message.Set(field, protoreflect.ValueOfString(namespace))
		}
	}
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil || field.IsMap():
		case field.IsList():
			for list, i := value.List(), 0; i < list.Len(); i++ {
				fillIn(list.Get(i).Message(), namespace)
			}
		default:
			fillIn(value.Message(), namespace)
		}
		return true
	})
}
