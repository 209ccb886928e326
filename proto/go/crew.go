package dfsmr

import "sync"

// outcome is what became of a handler.
type outcome struct {
	held   *held
	report report
	bad    error  // it returned no result
	known  string // then: the transitions of its node
}

// crew are the goroutines that run handlers. One that takes a task has another one come if there are
// more: where handlers take no time, few do all of them.
//
// What came together is young, until `age`: the outcomes of young tasks are told when the last of them
// has ended, so that one message, and one commit, has them all.
type crew struct {
	work func(*held) outcome
	news chan struct{} // there are outcomes

	mu    sync.Mutex
	ready []*held
	comes bool // a goroutine that has not begun yet
	batch int  // the number of what is young
	young int  // of them, how many have not ended
	done  []outcome
}

func newCrew(work func(*held) outcome) *crew {
	return &crew{work: work, news: make(chan struct{}, 1)}
}

func (c *crew) add(tasks []*held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.done) == 0 {
		c.batch, c.young = c.batch+1, 0
	}
	c.young += len(tasks)
	for _, h := range tasks {
		h.batch = c.batch
	}
	c.ready = append(c.ready, tasks...)
	c.call()
}

func (c *crew) call() {
	if len(c.ready) > 0 && !c.comes {
		c.comes = true
		go c.serve()
	}
}

func (c *crew) serve() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.comes = false
	for len(c.ready) > 0 {
		h := c.ready[0]
		c.ready = c.ready[1:]
		c.call()
		c.ended(h, c.run(h))
	}
}

func (c *crew) run(h *held) outcome {
	c.mu.Unlock()
	defer c.mu.Lock()
	return c.work(h)
}

func (c *crew) ended(h *held, o outcome) {
	c.done = append(c.done, o)
	if h.batch == c.batch {
		c.young--
	}
	if h.batch != c.batch || c.young == 0 {
		select {
		case c.news <- struct{}{}:
		default:
		}
	}
}

// age has nothing be young any more.
func (c *crew) age() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batch, c.young = c.batch+1, 0
}

// outcomes are those since the last call, whose slice is used again, and whether something is young.
func (c *crew) outcomes(former []outcome) ([]outcome, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := c.done
	c.done = former[:0]
	return done, c.young > 0
}
