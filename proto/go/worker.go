package dfsmr

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	v1 "dfsmr/v1"
)

// Subject is what a handler is for.
type Subject struct{ machine, node, action string }

// Node is one node of a machine.
func Node(machine, node string) Subject { return Subject{machine: machine, node: node} }

// Machine is all nodes of a machine.
func Machine(machine string) Subject { return Subject{machine: machine} }

// Action is an action: NAME, all of NAME.*, or *.
func Action(action string) Subject { return Subject{action: action} }

// Worker takes tasks on a stream, runs their handlers, and reports what these return.
type Worker struct {
	options
	address  string
	handlers map[Subject]Handler
	client   *Client
}

// NewWorker makes a worker of the server at an address, as NewClient does.
func NewWorker(address string, of ...Option) *Worker {
	w := &Worker{options: collect(of), address: address, handlers: map[Subject]Handler{}}
	if w.name == "" {
		host, _ := os.Hostname()
		w.name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	return w
}

// Handle has tasks of a subject handled. It panics where the subject has a handler already.
func (w *Worker) Handle(what Subject, handler Handler) {
	if _, there := w.handlers[what]; there {
		panic(fmt.Sprintf("dfsmr: %v has a handler already", what))
	}
	w.handlers[what] = handler
}

// Run works until ctx is done: then it takes no more, lets handlers finish for the grace, and
// returns nil. It returns an *Error when the server refuses the worker.
func (w *Worker) Run(ctx context.Context) error {
	if len(w.handlers) == 0 {
		return errors.New("a worker without handlers: call Handle")
	}
	if w.jobs < 1 || w.jobs > 10_000 {
		return fmt.Errorf("jobs are from 1 to 10,000, not %d", w.jobs)
	}
	client, err := dial(w.address, w.options)
	if err != nil {
		return err
	}
	defer client.Close()
	w.client = client
	return newLoop(w).run(ctx)
}

// filter is what is asked for: with one handler exactly that, with several their actions.
func (w *Worker) filter(ctx context.Context) (*v1.ReadyRequest, error) {
	request := &v1.ReadyRequest{Namespace: w.namespace, Worker: w.name, MaxTasks: int32(w.jobs),
		Queues: w.queues, Capabilities: w.capabilities, DryRun: w.dryRun,
		KeepFor: durationpb.New(30 * time.Second)}
	wanted := map[string]bool{}
	for what := range w.handlers {
		if what.action != "" {
			wanted[what.action] = true
		} else if len(w.handlers) == 1 {
			request.Machine, request.Node = what.machine, what.node
		} else if err := w.actionsOf(ctx, what, wanted); err != nil {
			return nil, err
		}
	}
	for action := range wanted {
		request.Actions = append(request.Actions, action)
	}
	sort.Strings(request.Actions)
	return request, nil
}

// actionsOf adds the actions of a node, or of all nodes of a machine; those they have by default
// where the machine is not defined yet, or is not for this worker to see.
func (w *Worker) actionsOf(ctx context.Context, what Subject, wanted map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	machine, err := w.client.GetMachine(ctx, &v1.GetMachineRequest{Id: what.machine})
	if err != nil && !errors.Is(err, NoSuchMachine) && !errors.Is(err, NotAllowed) {
		return err
	}
	found := false
	for _, node := range machine.GetNodes() {
		if node.Kind == "work" && node.Action != "" && (what.node == "" || what.node == node.Id) {
			wanted[node.Action], found = true, true
		}
	}
	if !found && what.node == "" {
		wanted[what.machine+".*"] = true
	} else if !found {
		wanted[what.machine+"."+what.node] = true
	}
	return nil
}

// handlerOf finds the handler of a task: by its node, its action, its machine.
func (w *Worker) handlerOf(t *Task) Handler {
	if handler := w.handlers[Node(t.Machine, t.Node)]; handler != nil {
		return handler
	}
	if handler := w.handlers[Action(t.Action)]; handler != nil {
		return handler
	}
	for name := t.Action; ; {
		dot := strings.LastIndexByte(name, '.')
		if dot < 0 {
			break
		}
		name = name[:dot]
		if handler := w.handlers[Action(name+".*")]; handler != nil {
			return handler
		}
	}
	if handler := w.handlers[Action("*")]; handler != nil {
		return handler
	}
	return w.handlers[Machine(t.Machine)]
}

// wrapped is a handler in the middleware that a task asks for, outermost first.
func (w *Worker) wrapped(handler Handler, t *Task) (Handler, error) {
	for i := len(t.Message.Middleware) - 1; i >= 0; i-- {
		wrap := w.middleware[t.Message.Middleware[i]]
		if wrap == nil {
			return nil, Fail(fmt.Sprintf("this worker has no middleware %q", t.Message.Middleware[i]))
		}
		handler = wrap(handler)
	}
	return handler, nil
}

// badResult is what a handler returned that is no result.
type badResult struct{ error }

// handle runs the handler of a task and makes a report of what it returns.
func (w *Worker) handle(h *held) (made report, bad error) {
	t := &h.task
	defer func() {
		if panicked := recover(); panicked != nil {
			stack := debug.Stack()
			w.logger.Error("a handler panicked", "instance", t.Instance, "panic", panicked, "stack", string(stack))
			if !w.tracebacks {
				stack = nil
			}
			made, bad = errorReport(t, fmt.Errorf("%v", panicked), string(stack))
		}
	}()
	handler, err := w.wrapped(h.handler, t)
	var result Result
	if err == nil {
		result, err = handler(&h.ctx, t)
	}
	if err != nil {
		return errorReport(t, err, "")
	}
	if made, err = result.report(t); err != nil {
		return report{}, badResult{err}
	}
	return made, nil
}
