package dfsmr

import (
	"sync"
	"time"
)

// outcome is what became of a handler.
type outcome struct {
	held   *held
	report report
	bad    error  // it returned no result
	known  string // then: the transitions of its node
}

// crew are the goroutines that read the stream and run handlers. One that takes a task has another one
// come, for the rest and to read on: where handlers take no time, the one that has read them does them
// all before that.
//
// What was taken is young, for gatherTime: where a handler ends so soon its outcome waits, for so long
// at most, until all that is ready or young has ended, and what was told has been answered, which brings
// more. So one message, and one commit, has them all.
type crew struct {
	read func(*stream) bool // and add what is to be done; false: the stream is over
	work func(*held) outcome
	tell func() // there are outcomes

	gatherTime time.Duration

	mu     sync.Mutex
	stream *stream
	reads  bool // a goroutine does
	ready  []*held
	comes  bool // a goroutine that has not begun yet
	batch  int  // the number of those that are young
	young  int  // how many have not ended
	done   []outcome
	since  time.Time // when the first of them ended
	timed  bool      // late will be called
	told   bool      // something is not answered yet
}

// readFrom has a stream read to its end.
func (c *crew) readFrom(s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = s
	c.call()
}

// add is called while reading.
func (c *crew) add(tasks []*held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = append(c.ready, tasks...)
}

// call has another goroutine come: for what is ready, to read, or to see to the time of outcomes that
// wait for what this one is about to do.
func (c *crew) call() {
	if !c.comes && (len(c.ready) > 0 || c.readable() || c.waits()) {
		c.comes = true
		go c.serve()
	}
}

func (c *crew) readable() bool { return c.stream != nil && !c.reads }

// waits says whether there are outcomes that nobody would tell if what they wait for never ended.
func (c *crew) waits() bool { return len(c.done) > 0 && !c.timed }

func (c *crew) serve() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.comes = false
	for {
		for now := time.Now(); len(c.ready) > 0; {
			now = c.run(c.take(now))
		}
		c.watch()
		if !c.readable() {
			return
		}
		c.readOnce(c.stream)
	}
}

func (c *crew) take(now time.Time) *held {
	h := c.ready[0]
	c.ready = c.ready[1:]
	h.batch, h.taken = c.batch, now
	c.young++
	c.call()
	return h
}

// run does a task, and tells its outcome unless that waits for others. It gives the time.
func (c *crew) run(h *held) (now time.Time) {
	c.mu.Unlock()
	defer c.mu.Lock()
	o := c.work(h)
	if now = time.Now(); c.ended(h, o, now) {
		c.tell()
	}
	return now
}

// ended says whether it is time to tell of outcomes.
func (c *crew) ended(h *held, o outcome, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.done) == 0 {
		c.since = now
	}
	c.done = append(c.done, o)
	if h.batch != c.batch {
		return true
	}
	c.young--
	if now.Sub(c.since) >= c.gatherTime {
		c.age()
		return true
	}
	return now.Sub(h.taken) >= c.gatherTime || c.complete()
}

// complete says whether nothing more is to come for now.
func (c *crew) complete() bool { return !c.told && len(c.ready)+c.young == 0 }

// answered is called when something was told, or answered.
func (c *crew) answered(all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = !all
}

// age has nothing be young any more.
func (c *crew) age() { c.batch, c.young = c.batch+1, 0 }

func (c *crew) readOnce(s *stream) {
	c.reads = true
	c.mu.Unlock()
	more := c.read(s)
	c.mu.Lock()
	c.reads = false
	if !more && c.stream == s {
		c.stream = nil
	}
	if len(c.done) > 0 && c.complete() {
		c.mu.Unlock()
		defer c.mu.Lock()
		c.tell()
	}
}

// watch sees to it that outcomes are told in time.
func (c *crew) watch() {
	if c.waits() {
		c.timed = true
		time.AfterFunc(time.Until(c.since.Add(c.gatherTime)), c.late)
	}
}

func (c *crew) late() {
	if c.ages() {
		c.tell()
	}
}

func (c *crew) ages() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timed = false
	if len(c.done) == 0 || time.Since(c.since) < c.gatherTime {
		c.watch() // others
		return false
	}
	c.age()
	return true
}

// outcomes are those since the last call, whose slice is used again.
func (c *crew) outcomes(former []outcome) []outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := c.done
	c.done = former[:0]
	return done
}
