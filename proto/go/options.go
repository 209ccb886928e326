package dfsmr

import (
	"log"
	"os"
	"time"
)

// Option is one of NewClient or NewWorker.
type Option func(*options)

type options struct {
	namespace, token, tokenFile, tlsCA, tlsCert, tlsKey string

	jobs         int
	name         string
	queues       []string
	capabilities []string
	grace        time.Duration
	middleware   map[string]func(Handler) Handler
	tracebacks   bool
	dryRun       bool
	count        func(name string, amount int)
	logger       Logger
}

// Logger is what log/slog's Logger has of it.
type Logger interface {
	Info(message string, args ...any)
	Error(message string, args ...any)
}

func collect(of []Option) options {
	o := options{namespace: os.Getenv("DFSMR_NAMESPACE"), jobs: 1, grace: 30 * time.Second,
		middleware: map[string]func(Handler) Handler{}, count: func(string, int) {}, logger: standard{}}
	for _, option := range of {
		option(&o)
	}
	return o
}

type standard struct{}

func (standard) Info(message string, args ...any)  { log.Println(append([]any{message}, args...)...) }
func (standard) Error(message string, args ...any) { log.Println(append([]any{message}, args...)...) }

// Of clients and workers.

// WithNamespace: default DFSMR_NAMESPACE of the environment, else the namespace default.
func WithNamespace(name string) Option { return func(o *options) { o.namespace = name } }

// WithToken sends a token.
func WithToken(token string) Option { return func(o *options) { o.token = token } }

// WithTokenFile reads the token from a file, again for every call.
func WithTokenFile(path string) Option { return func(o *options) { o.tokenFile = path } }

// WithTLS trusts the authority in a PEM file, or "system": those of the machine.
func WithTLS(ca string) Option { return func(o *options) { o.tlsCA = ca } }

// WithTLSCert shows a certificate to the server.
func WithTLSCert(cert, key string) Option {
	return func(o *options) { o.tlsCert, o.tlsKey = cert, key }
}

// Of workers.

// WithJobs: tasks at once, default 1.
func WithJobs(jobs int) Option { return func(o *options) { o.jobs = jobs } }

// WithName: default the host's with the pid.
func WithName(name string) Option { return func(o *options) { o.name = name } }

// WithQueues takes only what waits in these queues.
func WithQueues(queues ...string) Option { return func(o *options) { o.queues = queues } }

// WithCapabilities also takes what asks for these.
func WithCapabilities(words ...string) Option { return func(o *options) { o.capabilities = words } }

// WithGrace: how long handlers may take at the end, default 30 s.
func WithGrace(grace time.Duration) Option { return func(o *options) { o.grace = grace } }

// WithMiddleware wraps the handlers of tasks that ask for this name.
func WithMiddleware(name string, wrap func(Handler) Handler) Option {
	return func(o *options) { o.middleware[name] = wrap }
}

// WithTracebacks reports panics with their stack.
func WithTracebacks() Option { return func(o *options) { o.tracebacks = true } }

// WithDryRuns also takes tasks of dry runs.
func WithDryRuns() Option { return func(o *options) { o.dryRun = true } }

// WithCounter is called with a counter's name and an amount.
func WithCounter(count func(name string, amount int)) Option {
	return func(o *options) { o.count = count }
}

// WithLogger: default the standard log.
func WithLogger(logger Logger) Option { return func(o *options) { o.logger = logger } }
