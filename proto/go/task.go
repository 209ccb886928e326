package dfsmr

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	v1 "dfsmr/v1"
)

// Handler does a task. Its context is done once the task is not to be worked on any more: then
// whatever it returns is dropped.
type Handler func(ctx context.Context, t *Task) (Result, error)

// Task is a visit of an instance to a node, in this worker's hands.
type Task struct {
	Namespace, Instance, Machine, Node, Action, Queue, Claim string

	Version     uint32
	Visit       uint64
	Attempt     uint32
	Tries       uint32
	TriesLimit  uint32
	Phase       string
	Event       string
	DryRun      bool
	Deadline    time.Time       // by the server's clock, at the claim; zero: never
	Params      json.RawMessage // the instance's, as given at its start
	Input       json.RawMessage // the node's or step's
	EventData   json.RawMessage
	Checkpoint  json.RawMessage // the last that an attempt left; nil: none
	Traceparent string          // W3C Trace Context, where the server sends one
	Message     *v1.Task

	to    teller
	empty [2]byte // the object, which stands for texts that are empty
}

// teller is told of a task's progress.
type teller interface {
	tell(ctx context.Context, news *v1.ExtendRequest_Item) error
}

type tellerFunc func(ctx context.Context, news *v1.ExtendRequest_Item) error

func (tell tellerFunc) tell(ctx context.Context, news *v1.ExtendRequest_Item) error {
	return tell(ctx, news)
}

// NewTask makes a task of a message, for tests of handlers. tell is called with what it tells of its
// progress.
func NewTask(m *v1.Task, tell func(context.Context, *v1.ExtendRequest_Item) error) *Task {
	t := &Task{}
	t.read(m, tellerFunc(tell))
	return t
}

func (t *Task) read(m *v1.Task, to teller) {
	t.Namespace, t.Instance, t.Machine, t.Node = m.Namespace, m.Instance, m.Machine, m.Node
	t.Action, t.Queue, t.Claim, t.Version = m.Action, m.Queue, m.Claim, m.Version
	t.Visit, t.Attempt, t.Tries, t.TriesLimit = m.Visit, m.Attempt, m.Tries, m.TriesLimit
	t.empty = [2]byte{'{', '}'}
	t.Phase, t.Event, t.EventData = m.Phase, m.Event, t.object(m.EventData)
	t.Params, t.Input, t.DryRun = t.object(m.InstanceParams), t.object(m.NodeParams), m.DryRun
	t.Traceparent, t.Message, t.to = m.Traceparent, m, to
	if m.Checkpoint != "" {
		t.Checkpoint = json.RawMessage(m.Checkpoint)
	}
	if m.Deadline != nil {
		t.Deadline = m.Deadline.AsTime()
	}
}

func (t *Task) object(text string) json.RawMessage {
	if text == "" || text == "{}" {
		return t.empty[:len(t.empty):len(t.empty)]
	}
	return json.RawMessage(text)
}

// Decode reads the instance's params into a struct or map.
func (t *Task) Decode(into any) error { return json.Unmarshal(t.Params, into) }

// Told is something told with Progress.
type Told func(*v1.ExtendRequest_Item) error

// Checkpoint is given to each later attempt: a value that becomes a JSON object.
func Checkpoint(value any) Told {
	return func(item *v1.ExtendRequest_Item) (err error) {
		item.Checkpoint, err = text(value)
		return err
	}
}

// Note says to people what the task is doing, in 256 characters.
func Note(note string) Told {
	return func(item *v1.ExtendRequest_Item) error {
		if runes := []rune(note); len(runes) > 256 {
			note = string(runes[:256])
		}
		item.Note = note
		return nil
	}
}

// Progress tells how far the task is, from 0 to 1. A checkpoint is on the server's disk when this
// returns nil.
func (t *Task) Progress(ctx context.Context, progress float64, more ...Told) error {
	if !(progress >= 0 && progress <= 1) {
		return fmt.Errorf("progress is from 0 to 1, not %v", progress)
	}
	item := &v1.ExtendRequest_Item{Instance: t.Instance, Claim: t.Claim, Progress: progress}
	for _, told := range more {
		if err := told(item); err != nil {
			return err
		}
	}
	return t.to.tell(ctx, item)
}

// Result is what a handler returns; the zero one is the transition "ok".
type Result struct {
	Transition string
	Params     any                // for the next node
	Output     any                // kept as this node's
	Start      []*v1.StartRequest // instances that are started in the same commit
	Checkpoint any
	// Of a step that suspends.
	WakeAfter           time.Duration
	Children            []*v1.StartRequest
	ChildrenConcurrency uint32
}

// OK is the transition "ok" with an output.
func OK(output any) Result { return Result{Transition: "ok", Output: output} }

// To is a transition without an output.
func To(transition string) Result { return Result{Transition: transition} }

func (r Result) report(t *Task) (report, error) {
	if r.Transition == "" {
		r.Transition = "ok"
	}
	if r.Params == nil && r.Output == nil && r.Checkpoint == nil && r.Start == nil && r.WakeAfter == 0 &&
		r.Children == nil && r.ChildrenConcurrency == 0 && utf8.ValidString(r.Transition) {
		return transitionOf(t, r.Transition), nil
	}
	message := &v1.TransitionRequest{Transition: r.Transition, Starts: r.Start, Children: r.Children,
		ChildrenConcurrency: r.ChildrenConcurrency}
	if r.WakeAfter > 0 {
		message.WakeAfter = durationpb.New(r.WakeAfter)
	}
	for _, one := range []struct {
		to   *string
		from any
	}{{&message.NodeParams, r.Params}, {&message.Output, r.Output}, {&message.Checkpoint, r.Checkpoint}} {
		var err error
		if *one.to, err = text(one.from); err != nil {
			return report{}, err
		}
	}
	return reportOf(t, message)
}

// text is a JSON object of a value; nil is none.
func text(value any) (string, error) {
	if value == nil {
		return "", nil
	}
	var made bytes.Buffer
	to := json.NewEncoder(&made)
	to.SetEscapeHTML(false)
	if err := to.Encode(value); err != nil {
		return "", err
	}
	if trimmed := bytes.TrimSpace(made.Bytes()); len(trimmed) > 0 && trimmed[0] == '{' {
		return string(trimmed), nil
	}
	return "", fmt.Errorf("a %T is no JSON object", value)
}

type failure struct {
	text  string
	after time.Duration
	fatal bool
}

func (f *failure) Error() string { return f.text }

// Retry is the transition "error", to be tried again after this time; 0: as the node's policy says.
func Retry(text string, after time.Duration) error { return &failure{text: text, after: after} }

// Fail is the transition "error", without any more tries.
func Fail(text string) error { return &failure{text: text, fatal: true} }

// timeoutReport is the transition "error" of what has run for too long.
func timeoutReport(t *Task) report {
	made, _ := reportOf(t, &v1.TransitionRequest{Transition: "error", ErrorKind: "timeout",
		Error: fmt.Sprint("it ran for longer than ", t.Message.RunTimeout.AsDuration())})
	return made
}

// errorReport is the transition "error" of what a handler returned. stack: of a panic.
func errorReport(t *Task, err error, stack string) (report, error) {
	said := err.Error() + stack
	if len(said) > 16_384 {
		said = said[len(said)-16_384:]
	}
	message := &v1.TransitionRequest{Transition: "error", Error: strings.ToValidUTF8(said, "")}
	var f *failure
	if errors.As(err, &f) {
		message.Fatal = f.fatal
		if f.after > 0 {
			message.RetryAfter = durationpb.New(f.after)
		}
	}
	return reportOf(t, message)
}
