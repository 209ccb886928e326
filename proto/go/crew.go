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
type crew struct {
	work func(*held) outcome
	news chan struct{} // there are outcomes

	mu    sync.Mutex
	ready []*held
	comes bool // a goroutine that has not begun yet
	done  []outcome
}

func newCrew(work func(*held) outcome) *crew {
	return &crew{work: work, news: make(chan struct{}, 1)}
}

func (c *crew) add(tasks []*held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ready) == 0 {
		c.ready = tasks
	} else {
		c.ready = append(c.ready, tasks...)
	}
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
	c.comes = false
	for len(c.ready) > 0 {
		h := c.ready[0]
		c.ready = c.ready[1:]
		c.call()
		c.mu.Unlock()
		o := c.work(h)
		c.mu.Lock()
		c.done = append(c.done, o)
		if len(c.done) == 1 {
			c.tell()
		}
	}
	c.mu.Unlock()
}

func (c *crew) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// outcomes are those since the last call, whose slice is used again.
func (c *crew) outcomes(former []outcome) []outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := c.done
	c.done = former[:0]
	return done
}
