// The conformance suite's worker, in Go: as ../../worker.py.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"dfsmr"
	v1 "dfsmr/v1"
)

type params struct {
	Do      string          `json:"do"`
	Seconds float64         `json:"seconds"`
	Got     json.RawMessage `json:"got"`
}

var notes *os.File

func note(what string, t *dfsmr.Task) {
	line, _ := json.Marshal([]any{what, t.Instance, t.Visit, t.Attempt})
	if _, err := notes.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}

func outcome(ctx context.Context, p params, t *dfsmr.Task) (dfsmr.Result, error) {
	first := t.Attempt == 1
	switch {
	case p.Do == "name":
		return dfsmr.To("other"), nil
	case p.Do == "output":
		return dfsmr.OK(map[string]any{"big": 9007199254740993, "got": p.Got}), nil
	case p.Do == "object":
		return dfsmr.Result{Transition: "ok", Output: map[string]any{"done": true},
			Params: map[string]any{"from": t.Instance},
			Start: []*v1.StartRequest{{Machine: "job", Id: t.Instance + "-more",
				Params: `{"do":"ok"}`, Labels: map[string]string{"by": "object"}}}}, nil
	case p.Do == "echo":
		return dfsmr.OK(map[string]any{"params": t.Params, "input": t.Input, "attempt": t.Attempt,
			"visit": t.Visit, "phase": t.Phase, "event": t.Event, "event_data": t.EventData,
			"dry_run": t.DryRun, "node": t.Node, "machine": t.Machine, "instance": t.Instance,
			"action": t.Action, "deadline": !t.Deadline.IsZero(), "checkpoint": t.Checkpoint}), nil
	case p.Do == "raise":
		return dfsmr.Result{}, errors.New("boom")
	case p.Do == "retry":
		return dfsmr.Result{}, dfsmr.Retry("later", 200*time.Millisecond)
	case p.Do == "fail":
		return dfsmr.Result{}, fmt.Errorf("%w", dfsmr.Fail("never"))
	case p.Do == "nosuch" && first:
		return dfsmr.To("nosuch"), nil
	case p.Do == "nojson" && first:
		return dfsmr.OK(map[string]any{"it": make(chan int)}), nil
	case p.Do == "checkpoint" && t.Checkpoint == nil:
		err := t.Progress(ctx, 0.5, dfsmr.Checkpoint(map[string]int{"offset": 10}), dfsmr.Note("half of it"))
		if err != nil {
			return dfsmr.Result{}, err
		}
		os.Exit(9)
	case p.Do == "checkpoint":
		return dfsmr.OK(map[string]any{"checkpoint": t.Checkpoint}), nil
	}
	return dfsmr.Result{}, nil
}

func handle(ctx context.Context, t *dfsmr.Task) (dfsmr.Result, error) {
	note("begin", t)
	var p params
	if err := t.Decode(&p); err != nil {
		return dfsmr.Result{}, err
	}
	if p.Do == "sleep" {
		select {
		case <-ctx.Done():
			note("aborted", t)
			return dfsmr.OK(map[string]any{"dropped": true}), nil
		case <-time.After(time.Duration(p.Seconds * float64(time.Second))):
		}
	}
	return outcome(ctx, p, t)
}

func passOn(_ context.Context, t *dfsmr.Task) (dfsmr.Result, error) {
	note("begin", t)
	time.Sleep(time.Duration(rand.Intn(20)) * time.Millisecond)
	choices := map[string][]string{"crawl": {"ok", "ok", "error"}, "charge": {"ok", "error"},
		"reconcile": {"paid"}}[t.Node]
	if choices == nil {
		return dfsmr.To("ok"), nil
	}
	return dfsmr.To(choices[rand.Intn(len(choices))]), nil
}

func hashed(_ context.Context, t *dfsmr.Task) (dfsmr.Result, error) {
	note("begin", t)
	return dfsmr.OK(map[string]any{"sha256": "0", "bytes": 1}), nil
}

func main() {
	var err error
	if notes, err = os.OpenFile(os.Args[1], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		log.Fatal(err)
	}
	jobs, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	w := dfsmr.NewWorker("", dfsmr.WithJobs(jobs), dfsmr.WithGrace(time.Second),
		dfsmr.WithTokenFile(os.Getenv("TOKEN_FILE")),
		dfsmr.WithCounter(func(name string, _ int) {
			if name == "reconnects" {
				log.Println("counted", name)
			}
		}),
		dfsmr.WithMiddleware("audit", func(next dfsmr.Handler) dfsmr.Handler {
			return func(ctx context.Context, t *dfsmr.Task) (dfsmr.Result, error) {
				note("audit", t)
				return next(ctx, t)
			}
		}))
	for _, machine := range []string{"job", "async", "once", "hasty", "timed", "timed_async", "strict"} {
		w.Handle(dfsmr.Node(machine, "work"), handle)
	}
	w.Handle(dfsmr.Action("try.*"), handle)
	w.Handle(dfsmr.Node("crawler", "crawl"), passOn)
	for _, node := range []string{"reserve", "charge", "reconcile", "ship", "release"} {
		w.Handle(dfsmr.Node("order", node), passOn)
	}
	w.Handle(dfsmr.Node("notification", "send"), passOn)
	w.Handle(dfsmr.Action("sum.hash"), hashed)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
