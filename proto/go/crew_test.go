package dfsmr

import (
	"testing"
	"time"
)

// told has a crew, and how many outcomes are told each time.
func told(gatherTime time.Duration, work func(*held) outcome) (*crew, chan int) {
	counts := make(chan int, 100)
	c := &crew{work: work, gatherTime: gatherTime}
	c.tell = func() {
		if told := len(c.outcomes(nil)); told > 0 {
			counts <- told
		}
	}
	return c, counts
}

func atOnce(h *held) outcome { return outcome{held: h} }

func next(t *testing.T, counts chan int) int {
	select {
	case count := <-counts:
		return count
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was told")
		return 0
	}
}

func TestWhatEndsTogetherIsToldTogether(t *testing.T) {
	c, counts := told(time.Hour, atOnce)
	c.add([]*held{{}, {}, {}, {}})
	go c.serve()
	if count := next(t, counts); count != 4 {
		t.Fatal(count)
	}
}

func TestWhatEndedWaitsForAnAnswer(t *testing.T) {
	c, counts := told(time.Hour, atOnce)
	c.answered(false)
	c.add([]*held{{}, {}})
	c.serve()
	if len(counts) > 0 {
		t.Fatal("told before")
	}
	c.read = func(*stream) bool {
		c.answered(true)
		return false
	}
	c.readFrom(&stream{})
	if count := next(t, counts); count != 2 {
		t.Fatal(count)
	}
}

func TestWhatEndedWaitsForAnAnswerBriefly(t *testing.T) {
	c, counts := told(time.Millisecond, atOnce)
	c.answered(false)
	c.add([]*held{{}, {}})
	c.serve()
	for count := 0; count < 2; {
		count += next(t, counts)
	}
}

func TestItIsReadOnWhileHandlersRun(t *testing.T) {
	messages, waits := make(chan *held), make(chan struct{})
	c, counts := told(time.Millisecond, func(h *held) outcome {
		<-waits
		return outcome{held: h}
	})
	c.read = func(*stream) bool {
		h, more := <-messages
		if more {
			c.add([]*held{h})
		}
		return more
	}
	c.readFrom(&stream{})
	for i := 0; i < 3; i++ {
		messages <- &held{}
	}
	close(messages)
	close(waits)
	for count := 0; count < 3; {
		count += next(t, counts)
	}
}

func TestWhatEndedWaitsForTheOthersBriefly(t *testing.T) {
	for slow := 0; slow < 4; slow++ {
		tasks := []*held{{}, {}, {}, {}}
		waits := make(chan struct{})
		c, counts := told(time.Millisecond, func(h *held) outcome {
			if h == tasks[slow] {
				<-waits
			}
			return outcome{held: h}
		})
		c.add(tasks)
		go c.serve()
		for count := 0; count < 3; {
			count += next(t, counts)
		}
		close(waits)
		if count := next(t, counts); count != 1 {
			t.Fatal(count)
		}
	}
}
