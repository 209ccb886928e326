package dfsmr

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"math"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "dfsmr/v1"
)

const (
	mostItems   = 900       // of a message; the server takes 1,000 of each kind
	mostBytes   = 3_000_000 // of a message; the server takes 4 MiB
	mostReport  = 4_000_000
	soonest     = 20 * time.Millisecond // between two extensions of a claim
	sendAgain   = time.Second           // a report that the server had no room for
	gatherTime  = time.Millisecond      // that reports wait for others
	callTime    = 5 * time.Second       // of a call beside the stream
	lastMoments = 5 * time.Second       // for the end of a stream that was closed
)

var never = time.Unix(math.MaxInt32, 0)

// loop is the stream of a worker: what came, what goes, and what is in hand. `mu` guards all of it but
// the channels. Whoever has news takes it: the goroutine of run, which has to do with the time, and those
// of the crew, which read the stream, run handlers, and send what these returned. So a task waits for no
// other goroutine on its way.
type loop struct {
	worker  *Worker
	session string
	crew    *crew
	opened  chan *stream
	over    chan struct{} // closed at the end
	roused  chan struct{} // run is to look again

	mu          sync.Mutex
	held        inHand
	reports     []*held // to be sent
	extends     []*held
	returns     []*v1.RelinquishRequest
	drain       bool
	sentReports []*held // not answered yet
	sentExtends []sentExtend
	outcomes    []outcome

	wake time.Time // when to look at the time again

	stream   *stream
	pause    time.Duration
	openAt   time.Time
	opening  bool
	stopping bool
	closing  bool // the grace is over
	graceEnd time.Time
	lastEnd  time.Time
}

func newLoop(w *Worker) *loop {
	session := make([]byte, 16)
	if _, err := rand.Read(session); err != nil {
		panic(err)
	}
	l := &loop{worker: w, session: hex.EncodeToString(session),
		opened: make(chan *stream), over: make(chan struct{}), roused: make(chan struct{}, 1),
		pause: 100 * time.Millisecond, graceEnd: never, lastEnd: never}
	l.crew = &crew{read: l.read, work: l.handle, tell: l.finishedAll, gatherTime: gatherTime}
	return l
}

func (l *loop) run(ctx context.Context) error {
	all, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer close(l.over)
	stop := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.dropAll()
	for {
		l.open(all)
		if now := time.Now(); !now.Before(l.wake) {
			l.wake = l.tend(now)
			reset(timer, l.wake)
		}
		l.push()
		var over chan struct{}
		if l.stream != nil {
			over = l.stream.over
		}
		l.mu.Unlock()
		var err error
		select {
		case <-stop:
			stop = nil
			l.mu.Lock()
			l.stopping, l.drain, l.graceEnd = true, true, time.Now().Add(l.worker.grace)
			l.wake = time.Time{}
		case s := <-l.opened:
			l.mu.Lock()
			err = l.take(s)
		case <-over:
			l.mu.Lock()
			err = l.ended()
		case <-l.roused:
			l.mu.Lock()
		case <-timer.C:
			l.mu.Lock()
		}
		if err != nil {
			return err
		}
		if l.stream == nil && !l.opening && (l.closing || (l.stopping && len(l.held) == 0)) {
			return nil
		}
	}
}

// rouse has run look again where something is due earlier than it thinks, or where all is done.
func (l *loop) rouse() {
	if l.wake.IsZero() || l.stopping {
		select {
		case l.roused <- struct{}{}:
		default:
		}
	}
}

func reset(timer *time.Timer, at time.Time) {
	if !timer.Stop() {
		select {
		case <-timer.C:
		default:
		}
	}
	timer.Reset(time.Until(at))
}

// The time.

// tend does what is due, and says when to look again.
func (l *loop) tend(now time.Time) time.Time {
	if l.stopping && !l.closing && !now.Before(l.graceEnd) {
		l.giveUp(now)
	}
	next := now.Add(time.Minute)
	earlier := func(at time.Time) {
		if at.Before(next) {
			next = at
		}
	}
	if l.closing {
		if !now.Before(l.lastEnd) && l.stream != nil {
			l.stream.cancel()
			l.lastEnd = never
		}
		earlier(l.lastEnd)
	} else {
		earlier(l.graceEnd)
	}
	if l.stream == nil && !l.opening {
		earlier(l.openAt)
	}
	for _, h := range l.held {
		if !h.resendAt.IsZero() {
			if !now.Before(h.resendAt) {
				h.resendAt = time.Time{}
				l.reports = append(l.reports, h)
			} else {
				earlier(h.resendAt)
			}
		}
		if !h.endsAt.IsZero() {
			if !now.Before(h.endsAt) {
				l.timeOut(h)
			} else {
				earlier(h.endsAt)
			}
		}
		if h.extendEvery > 0 {
			if !now.Before(h.extendAt) {
				l.extend(h, now)
			}
			earlier(h.extendAt)
		}
	}
	return next
}

// timeOut tells a handler to end, whatever it returns then. Until it has, its claim is kept.
func (l *loop) timeOut(h *held) {
	h.endsAt = time.Time{}
	if h.report.bytes != nil || h.cancelled {
		return
	}
	l.worker.logger.Info("a handler has run for too long", "instance", h.task.Instance, "node", h.task.Node)
	h.timedOut = true
	h.ctx.end(context.DeadlineExceeded)
}

// giveUp ends the grace.
func (l *loop) giveUp(now time.Time) {
	for i := len(l.held) - 1; i >= 0; i-- {
		h := l.held[i]
		l.abort(h)
		if h.report.bytes == nil {
			l.giveBack(h, "the worker stops", false)
		}
	}
	l.closing, l.lastEnd = true, now.Add(lastMoments)
}

func (l *loop) extend(h *held, now time.Time) {
	every := h.extendEvery
	if every == 0 {
		every = time.Minute
	}
	h.extendAt = now.Add(every)
	if !h.queued {
		h.queued = true
		l.extends = append(l.extends, h)
	}
}

// What is heard.

// hear is called by what reads the stream.
func (l *loop) hear(s *stream, heard *response) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != s {
		return
	}
	l.pause = 100 * time.Millisecond
	if len(heard.Tasks) > 0 { // first, so that handlers run meanwhile
		l.begin(heard.Tasks, now)
	}
	l.answered(heard.results, heard.refusals, now)
	for _, item := range heard.Extended {
		e := l.sentExtends[0]
		l.sentExtends = l.sentExtends[1:]
		l.extended(e, item, now)
	}
	if unwanted := append(heard.CancelledClaims, heard.KilledClaims...); len(unwanted) > 0 {
		for _, h := range l.held.of(unwanted) {
			h.finishable = contains(heard.FinishableClaims, h.task.Claim)
			l.abort(h)
		}
	}
	l.crew.answered(len(l.sentReports) == 0)
	l.push()
	l.rouse()
}

func contains(all []string, one string) bool {
	for _, it := range all {
		if it == one {
			return true
		}
	}
	return false
}

// begin has the handlers of tasks run.
func (l *loop) begin(messages []*v1.Task, now time.Time) {
	l.worker.count("tasks", len(messages))
	tasks := make([]*held, 0, len(messages))
	for _, message := range messages {
		h := &held{loop: l}
		h.task.read(message, h)
		l.held.add(h)
		if message.Deadline != nil {
			l.span(h, message.Deadline, now)
		}
		if message.RunTimeout != nil {
			l.at(&h.endsAt, now.Add(message.RunTimeout.AsDuration()))
		}
		if h.handler = l.worker.handlerOf(&h.task); h.handler != nil {
			tasks = append(tasks, h)
			continue
		}
		l.worker.logger.Error("no handler for a task, which is given back", "machine", message.Machine,
			"node", message.Node, "action", message.Action)
		l.forget(h)
		l.returns = append(l.returns, relinquish(h, "the worker has no handler for it", true))
	}
	if len(tasks) > 0 {
		l.crew.add(tasks)
	}
}

// handle runs the handler of a task, in a goroutine of the crew.
func (l *loop) handle(h *held) outcome {
	o := outcome{held: h}
	if o.report, o.bad = l.worker.handle(h); o.bad != nil {
		o.known = l.transitions(&h.ctx, &h.task)
	}
	return o
}

// span sets the time of the next extension: at a third of what is left.
func (l *loop) span(h *held, deadline *timestamppb.Timestamp, now time.Time) {
	left := deadline.AsTime().Sub(now.Add(l.stream.offset))
	if l.stream.virtual {
		left = 3 * time.Second
	}
	if h.extendEvery = left / 3; h.extendEvery < soonest {
		h.extendEvery = soonest
	}
	l.at(&h.extendAt, now.Add(h.extendEvery))
}

// at sets when something is due.
func (l *loop) at(due *time.Time, when time.Time) {
	*due = when
	if when.Before(l.wake) {
		l.wake = time.Time{}
	}
}

// answered has the answers of reports, in their order.
func (l *loop) answered(results int, refusals map[int]*v1.Error, now time.Time) {
	reported := 0
	for i, h := range l.sentReports[:results] {
		if h.over {
			continue
		}
		if refusal := refusals[i]; refusal != nil {
			l.refused(h, refusal, now)
			continue
		}
		reported++
		l.forget(h)
	}
	l.sentReports = l.sentReports[results:]
	if reported > 0 {
		l.worker.count("reported", reported)
	}
}

func (l *loop) refused(h *held, err *v1.Error, now time.Time) {
	switch {
	case codes.Code(err.Code) == codes.Unavailable, codes.Code(err.Code) == codes.ResourceExhausted:
		l.at(&h.resendAt, now.Add(sendAgain))
	case lost(err):
		l.worker.count("stale", 1)
		l.forget(h)
	default: // no such transition: the message lists those that there are
		l.worker.logger.Error("a report was refused", "instance", h.task.Instance,
			"transition", h.report.transition, "error", err.Message)
		reason := h.report.failure
		if reason == "" {
			reason = err.Message
		}
		l.giveBack(h, reason, true)
	}
}

// lost says whether a claim is not ours any more.
func lost(err *v1.Error) bool {
	switch Reason(err.Reason) {
	case StaleClaim, NoSuchInstance, InstanceStopped, SupersededVersion:
		return true
	}
	return false
}

func (l *loop) extended(e sentExtend, item *v1.ExtendResponse_Item, now time.Time) {
	var answer error
	if item.Error != nil {
		answer = ofItem(item.Error)
	}
	for _, done := range e.waiting {
		done <- answer
	}
	switch {
	case e.held.over:
	case item.Error != nil:
		if lost(item.Error) {
			l.abort(e.held)
		}
	default:
		if item.Deadline != nil {
			l.span(e.held, item.Deadline, now)
		}
		if item.CancelRequested || item.KillRequested {
			l.abort(e.held)
		}
	}
}

// abort ends the context of a handler, whose end then gives the task back.
func (l *loop) abort(h *held) {
	if h.report.bytes != nil || h.cancelled {
		return
	}
	h.cancelled = true
	h.ctx.end(context.Canceled)
	l.worker.count("cancelled", 1)
}

// What handlers say.

// finishedAll takes and sends what handlers returned. It is called by goroutines of the crew: sending
// may take its time where the server does not read.
func (l *loop) finishedAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes = l.crew.outcomes(l.outcomes)
	for _, o := range l.outcomes {
		l.finished(o)
	}
	if l.stream != nil {
		l.send(l.stream)
	}
	l.rouse()
}

func (l *loop) finished(o outcome) {
	h := o.held
	if h.over {
		return
	}
	switch {
	// Of work at most once it is better known how it went than not.
	case h.cancelled && !(h.finishable && h.task.Deadline.IsZero() && o.bad == nil):
		l.worker.count("dropped", 1)
		l.giveBack(h, "cancelled", false)
	case h.timedOut:
		h.report = timeoutReport(&h.task)
		l.reports = append(l.reports, h)
	case o.bad != nil:
		l.worker.logger.Error("a handler returned no result", "instance", h.task.Instance,
			"error", o.bad, "transitions", o.known)
		l.giveBack(h, "not a result: "+o.bad.Error(), true)
	case len(o.report.bytes) > mostReport:
		l.worker.logger.Error("a report is larger than a message", "instance", h.task.Instance,
			"bytes", len(o.report.bytes))
		l.giveBack(h, "its report was too large", true)
	default:
		h.report = o.report
		l.reports = append(l.reports, h)
	}
}

// tell is called by handlers. It waits for the answer where there is a checkpoint.
func (l *loop) tell(ctx context.Context, h *held, item *v1.ExtendRequest_Item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	if !l.noteNews(h, item, done) {
		return StaleClaim
	}
	if item.Checkpoint == "" {
		return nil
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// noteNews has news sent. False: the claim is not ours any more.
func (l *loop) noteNews(h *held, item *v1.ExtendRequest_Item, done chan error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.over || h.cancelled {
		return false
	}
	h.progress = item.Progress
	if item.Checkpoint != "" {
		h.checkpoint = item.Checkpoint
	}
	if item.Note != "" {
		h.note = item.Note
	}
	h.waiting = append(h.waiting, done)
	l.extend(h, time.Now())
	l.push()
	return true
}

// giveBack returns a task; what runs at most once has begun, and stays. `refused`: this worker would
// only fail again, so for a minute it is not offered that node.
func (l *loop) giveBack(h *held, reason string, refused bool) {
	l.forget(h)
	if h.task.Deadline.IsZero() {
		l.worker.logger.Error("what runs at most once cannot be given back: an operator has to look at it",
			"instance", h.task.Instance, "reason", reason)
		// The server counts it as in hand until the stream is another one.
		if !l.stopping && l.stream != nil {
			l.stream.cancel()
		}
		return
	}
	l.worker.count("given_back", 1)
	l.returns = append(l.returns, relinquish(h, reason, refused))
}

func relinquish(h *held, reason string, refused bool) *v1.RelinquishRequest {
	if len(reason) > 4000 {
		reason = strings.ToValidUTF8(reason[:4000], "")
	}
	return &v1.RelinquishRequest{Namespace: h.task.Namespace, Instance: h.task.Instance,
		Claim: h.task.Claim, Reason: reason, Refused: refused}
}

func (l *loop) forget(h *held) {
	h.over = true
	l.held.delete(h)
	h.ctx.end(context.Canceled)
	for _, done := range h.waiting {
		done <- StaleClaim
	}
	h.waiting = nil
}

func (l *loop) dropAll() {
	for len(l.held) > 0 {
		l.forget(l.held[len(l.held)-1])
	}
}

// transitions are those of a task's node, for a message.
func (l *loop) transitions(ctx context.Context, t *Task) string {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	instance, err := l.worker.client.GetInstance(ctx,
		&v1.GetInstanceRequest{Namespace: t.Namespace, Id: t.Instance, WithNodes: true})
	if err != nil {
		return "not known"
	}
	var names []string
	for _, node := range instance.Nodes {
		if node.Id == t.Node {
			for _, edge := range node.Transitions {
				names = append(names, edge.Transition)
			}
		}
	}
	return strings.Join(names, ", ")
}
