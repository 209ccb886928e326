package dfsmr

import (
	"context"
	"sync"
	"time"

	v1 "dfsmr/v1"
)

// held is a claim in hand, until its report is answered or it goes back.
type held struct {
	loop       *loop
	at         int // where inHand has it
	batch      int // the crew's, as is the next
	taken      time.Time
	task       Task
	handler    Handler
	ctx        taskContext // of its handler
	cancelled  bool
	finishable bool // cancelled, but a report of it counts
	timedOut   bool // it is to end, since it has run for too long
	over       bool
	report     report // of its handler, once that has ended

	extendEvery time.Duration // 0: never
	extendAt    time.Time
	resendAt    time.Time
	endsAt      time.Time // when it will have run for too long; zero: never

	// What the next extension tells, and who waits for its answer.
	progress   float64
	checkpoint string
	note       string
	queued     bool
	waiting    []chan error
}

func (h *held) tell(ctx context.Context, item *v1.ExtendRequest_Item) error {
	return h.loop.tell(ctx, h, item)
}

// inHand are the claims in hand, in any order. To delete while visiting them, go backwards.
type inHand []*held

func (all *inHand) add(h *held) {
	h.at = len(*all)
	*all = append(*all, h)
}

func (all *inHand) delete(h *held) {
	last := len(*all) - 1
	moved := (*all)[last]
	(*all)[h.at], moved.at = moved, h.at
	(*all)[last] = nil
	*all = (*all)[:last]
}

// of finds those with these claims.
func (all inHand) of(claims []string) (found []*held) {
	wanted := make(map[string]bool, len(claims))
	for _, claim := range claims {
		wanted[claim] = true
	}
	for _, h := range all {
		if wanted[h.task.Claim] {
			found = append(found, h)
		}
	}
	return found
}

// sentExtend is an extension that was not answered yet.
type sentExtend struct {
	held       *held
	checkpoint string
	waiting    []chan error
}

// taskContext is a context whose channel is made when somebody asks for it: most handlers end before
// that.
type taskContext struct {
	mu   sync.Mutex
	done chan struct{}
	err  error
}

func (c *taskContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *taskContext) Value(any) any { return nil }

func (c *taskContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.err != nil {
			close(c.done)
		}
	}
	return c.done
}

func (c *taskContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end says why; the first reason stays.
func (c *taskContext) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = why
	if c.done != nil {
		close(c.done)
	}
}
