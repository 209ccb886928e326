package dfsmr

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "dfsmr/v1"
)

const (
	mostItems   = 900       // of a message; the server takes 1,000 of each kind
	mostBytes   = 3_000_000 // of a message; the server takes 4 MiB
	mostReport  = 4_000_000
	soonest     = 20 * time.Millisecond // between two extensions of a claim
	sendAgain   = time.Second           // a report that the server had no room for
	callTime    = 5 * time.Second       // of a call beside the stream
	lastMoments = 5 * time.Second       // for the end of a stream that was closed
)

var never = time.Unix(math.MaxInt32, 0)

// held is a claim in hand, until its report is answered or it goes back.
type held struct {
	task       *Task
	cancel     context.CancelFunc
	cancelled  bool
	finishable bool // cancelled, but a report of it counts
	over       bool
	report     *v1.TransitionRequest // nil: its handler runs

	extendEvery time.Duration // 0: never
	extendAt    time.Time
	resendAt    time.Time

	// What the next extension tells, and who waits for its answer.
	news    v1.ExtendRequest_Item
	queued  bool
	waiting []chan error
}

// sentExtend is an extension that was not answered yet.
type sentExtend struct {
	held       *held
	checkpoint string
	waiting    []chan error
}

// outcome is what became of a handler.
type outcome struct {
	held   *held
	report *v1.TransitionRequest
	bad    error
	known  string // of a bad result: the transitions of its node
}

// told is what a handler tells of its progress.
type told struct {
	held *held
	item *v1.ExtendRequest_Item
	done chan error
}

// stream is one Work stream: a goroutine reads it, one sends.
type stream struct {
	cancel context.CancelFunc
	want   chan struct{}         // the sender could take a message
	send   chan *v1.WorkRequest  // the message; closed: no more
	heard  chan *v1.WorkResponse // closed: over, and why is in `end`
	end    error

	offset  time.Duration // the server's clock minus ours
	virtual bool          // a clock that goes by order only
}

// loop is the stream of a worker: what came, what goes, and what is in hand. All of it belongs to the
// goroutine of run; handlers and streams talk to it by channels.
type loop struct {
	worker  *Worker
	session string

	held        map[string]*held
	reports     []*held // to be sent
	extends     []*held
	returns     []*v1.RelinquishRequest
	drain       bool
	sentReports []*held // not answered yet
	sentExtends []sentExtend

	done   chan outcome
	told   chan told
	opened chan *stream
	over   chan struct{} // closed at the end

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
	return &loop{worker: w, session: hex.EncodeToString(session), held: map[string]*held{},
		done: make(chan outcome, w.jobs), told: make(chan told), opened: make(chan *stream),
		over: make(chan struct{}), pause: 100 * time.Millisecond, graceEnd: never, lastEnd: never}
}

func (l *loop) run(ctx context.Context) error {
	all, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer close(l.over)
	defer l.dropAll()
	stop := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		l.open(all)
		if now := time.Now(); !now.Before(l.wake) {
			l.wake = l.tend(now)
			reset(timer, l.wake)
		}
		var heard chan *v1.WorkResponse
		var want chan struct{}
		if l.stream != nil {
			heard = l.stream.heard
			if l.hasNews() {
				want = l.stream.want
			}
		}
		select {
		case <-stop:
			stop = nil
			l.stopping, l.drain, l.graceEnd = true, true, time.Now().Add(l.worker.grace)
			l.wake = time.Time{}
		case s := <-l.opened:
			if err := l.take(s); err != nil {
				return err
			}
		case response, ok := <-heard:
			if ok {
				l.hear(all, response)
			} else if err := l.ended(); err != nil {
				return err
			}
		case <-want:
			l.finishedSoon()
			l.stream.send <- l.fill()
		case o := <-l.done:
			l.finished(o)
		case news := <-l.told:
			l.noteNews(news)
		case <-timer.C:
		}
		if l.stream == nil && !l.opening && (l.closing || (l.stopping && len(l.held) == 0)) {
			return nil
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
		if h.extendEvery > 0 {
			if !now.Before(h.extendAt) {
				l.extend(h, now)
			}
			earlier(h.extendAt)
		}
	}
	return next
}

// giveUp ends the grace.
func (l *loop) giveUp(now time.Time) {
	for _, h := range l.held {
		l.abort(h)
		if h.report == nil {
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

// The stream.

func (l *loop) open(all context.Context) {
	if l.stream != nil || l.opening || l.closing || time.Now().Before(l.openAt) ||
		(l.stopping && len(l.held) == 0) {
		return
	}
	l.opening = true
	go func() {
		s := l.dial(all)
		select {
		case l.opened <- s:
		case <-l.over:
		}
	}()
}

// dial asks for the clock, which deadlines are told by (not every token may), and opens a stream.
func (l *loop) dial(all context.Context) *stream {
	ctx, cancel := context.WithCancel(all)
	s := &stream{cancel: cancel, want: make(chan struct{}), send: make(chan *v1.WorkRequest),
		heard: make(chan *v1.WorkResponse)}
	brief, enough := context.WithTimeout(ctx, callTime)
	defer enough()
	clock, err := l.worker.client.GetClock(brief, &v1.GetClockRequest{})
	if err == nil {
		s.offset, s.virtual = time.Until(clock.Time.AsTime()), clock.IsVirtual
	} else if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
		s.end = err
		return s
	}
	open, err := l.worker.filter(ctx)
	if err != nil {
		s.end = err
		return s
	}
	open.Session = l.session
	work, err := l.worker.client.Work(ctx)
	if err == nil {
		err = work.Send(&v1.WorkRequest{Open: open})
	}
	if err != nil && !errors.Is(err, io.EOF) { // of EOF Recv tells why
		s.end = err
		return s
	}
	go s.write(ctx, work)
	go s.read(ctx, work)
	return s
}

func (s *stream) write(ctx context.Context, work v1.RunnerService_WorkClient) {
	for {
		select {
		case s.want <- struct{}{}:
		case <-ctx.Done():
			return
		}
		request := <-s.send
		if request == nil {
			_ = work.CloseSend()
			return
		}
		if work.Send(request) != nil {
			return // Recv tells why
		}
	}
}

func (s *stream) read(ctx context.Context, work v1.RunnerService_WorkClient) {
	defer s.cancel()
	defer close(s.heard)
	for {
		response, err := work.Recv()
		if err != nil {
			s.end = err
			return
		}
		select {
		case s.heard <- response:
		case <-ctx.Done():
			s.end = ctx.Err()
			return
		}
	}
}

// take takes up a new stream: all in hand is extended, and what was not answered sent again.
func (l *loop) take(s *stream) error {
	l.opening = false
	if s.end != nil {
		s.cancel()
		return l.broke(s.end)
	}
	l.stream = s
	for _, h := range l.sentReports {
		if !h.over && h.report != nil {
			l.reports = append(l.reports, h)
		}
	}
	for _, e := range l.sentExtends {
		if e.held.news.Checkpoint == "" {
			e.held.news.Checkpoint = e.checkpoint
		}
		e.held.waiting = append(e.waiting, e.held.waiting...)
	}
	l.sentReports, l.sentExtends, l.extends = nil, nil, nil
	for _, h := range l.held {
		h.queued = false
		l.extend(h, time.Now())
	}
	l.drain = l.stopping
	return nil
}

func (l *loop) ended() error {
	end := l.stream.end
	l.stream = nil
	if errors.Is(end, io.EOF) {
		end = status.Error(codes.Unavailable, "the server ended the stream")
	}
	return l.broke(end)
}

// broke has the stream opened again, if that is of use.
func (l *loop) broke(err error) error {
	if !again(err) {
		return err
	}
	l.at(&l.openAt, time.Now().Add(around(l.pause)))
	l.pause = longer(l.pause)
	if !l.stopping || len(l.held) > 0 {
		l.worker.logger.Info("the stream broke", "error", err)
		l.worker.count("reconnects", 1)
	}
	return nil
}

func (l *loop) hasNews() bool {
	return len(l.reports)+len(l.extends)+len(l.returns) > 0 || l.drain || l.closing
}

// finishedSoon lets handlers that take no time finish, so that one message, and one commit, has them
// all.
func (l *loop) finishedSoon() {
	for known := -1; known < len(l.reports) && len(l.reports) < len(l.held); {
		known = len(l.reports)
		runtime.Gosched()
		for len(l.done) > 0 {
			l.finished(<-l.done)
		}
	}
}

// fill moves as much as a message takes from what is to be sent to what was. nil: the stream closes.
func (l *loop) fill() *v1.WorkRequest {
	request, room := &v1.WorkRequest{Drain: l.drain}, mostBytes
	l.drain = false
	for ; len(l.reports) > 0 && len(request.Transitions) < mostItems; l.reports = l.reports[1:] {
		h := l.reports[0]
		if h.over || h.report == nil {
			continue
		}
		size := proto.Size(h.report)
		if size > room && room != mostBytes {
			break
		}
		room -= size
		request.Transitions = append(request.Transitions, h.report)
		l.sentReports = append(l.sentReports, h)
	}
	for ; len(l.extends) > 0 && len(request.Extends) < mostItems; l.extends = l.extends[1:] {
		h := l.extends[0]
		h.queued = false
		if h.over {
			continue
		}
		if room -= len(h.news.Checkpoint); room < 0 {
			h.queued = true
			break
		}
		request.Extends = append(request.Extends, &v1.ExtendRequest_Item{Instance: h.task.Instance,
			Claim: h.task.Claim, Progress: h.news.Progress, Checkpoint: h.news.Checkpoint, Note: h.news.Note})
		l.sentExtends = append(l.sentExtends, sentExtend{h, h.news.Checkpoint, h.waiting})
		h.news.Checkpoint, h.waiting = "", nil
	}
	returns := len(l.returns)
	if returns > mostItems {
		returns = mostItems
	}
	request.Relinquishes, l.returns = l.returns[:returns], l.returns[returns:]
	if l.closing && proto.Size(request) == 0 {
		return nil
	}
	return request
}

// What is heard.

func (l *loop) hear(all context.Context, response *v1.WorkResponse) {
	now := time.Now()
	l.pause = 100 * time.Millisecond
	for _, result := range response.Results {
		h := l.sentReports[0]
		l.sentReports = l.sentReports[1:]
		l.answered(h, result, now)
	}
	for _, item := range response.Extended {
		e := l.sentExtends[0]
		l.sentExtends = l.sentExtends[1:]
		l.extended(e, item, now)
	}
	for _, claims := range [][]string{response.CancelledClaims, response.KilledClaims} {
		for _, claim := range claims {
			if h := l.held[claim]; h != nil {
				h.finishable = contains(response.FinishableClaims, claim)
				l.abort(h)
			}
		}
	}
	for _, message := range response.Tasks {
		l.begin(all, message, now)
	}
}

func contains(all []string, one string) bool {
	for _, it := range all {
		if it == one {
			return true
		}
	}
	return false
}

// begin has the handler of a task run.
func (l *loop) begin(all context.Context, message *v1.Task, now time.Time) {
	h := &held{}
	h.task = NewTask(message, func(ctx context.Context, item *v1.ExtendRequest_Item) error {
		return l.tell(ctx, h, item)
	})
	l.held[message.Claim] = h
	if message.Deadline != nil {
		l.span(h, message.Deadline, now)
	}
	l.worker.count("tasks", 1)
	handler := l.worker.handlerOf(h.task)
	if handler == nil {
		l.worker.logger.Error("no handler for a task, which is given back", "machine", message.Machine,
			"node", message.Node, "action", message.Action)
		l.forget(h)
		l.returns = append(l.returns, relinquish(h, "the worker has no handler for it", true))
		return
	}
	var ctx context.Context
	ctx, h.cancel = context.WithCancel(all)
	go func() {
		o := outcome{held: h}
		if o.report, o.bad = l.worker.handle(ctx, handler, h.task); o.bad != nil {
			o.known = l.transitions(all, h.task)
		}
		select {
		case l.done <- o:
		case <-l.over:
		}
	}()
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

func (l *loop) answered(h *held, result *v1.TransitionResult, now time.Time) {
	if h.over {
		return
	}
	err := result.Error
	switch {
	case err == nil:
		l.worker.count("reported", 1)
		l.forget(h)
	case codes.Code(err.Code) == codes.Unavailable, codes.Code(err.Code) == codes.ResourceExhausted:
		l.at(&h.resendAt, now.Add(sendAgain))
	case lost(err):
		l.worker.count("stale", 1)
		l.forget(h)
	default: // no such transition: the message lists those that there are
		l.worker.logger.Error("a report was refused", "instance", h.task.Instance,
			"transition", h.report.Transition, "error", err.Message)
		reason := h.report.Error
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
	if h.report != nil || h.cancelled {
		return
	}
	h.cancelled = true
	h.cancel()
	l.worker.count("cancelled", 1)
}

// What handlers say.

func (l *loop) finished(o outcome) {
	h := o.held
	if h.over {
		return
	}
	switch {
	// Of work at most once it is better known how it went than not.
	case h.cancelled && !(h.finishable && h.task.Deadline.IsZero() && o.report != nil):
		l.worker.count("dropped", 1)
		l.giveBack(h, "cancelled", false)
	case o.bad != nil:
		l.worker.logger.Error("a handler returned no result", "instance", h.task.Instance,
			"error", o.bad, "transitions", o.known)
		l.giveBack(h, "not a result: "+o.bad.Error(), true)
	default:
		o.report.Instance, o.report.Claim = h.task.Instance, h.task.Claim
		if size := proto.Size(o.report); size > mostReport {
			l.worker.logger.Error("a report is larger than a message", "instance", h.task.Instance, "bytes", size)
			l.giveBack(h, "its report was too large", true)
			return
		}
		h.report = o.report
		l.reports = append(l.reports, h)
	}
}

// tell is called by handlers. It waits for the answer where there is a checkpoint.
func (l *loop) tell(ctx context.Context, h *held, item *v1.ExtendRequest_Item) error {
	news := told{h, item, make(chan error, 1)}
	select {
	case l.told <- news:
	case <-l.over:
		return StaleClaim
	case <-ctx.Done():
		return ctx.Err()
	}
	if item.Checkpoint == "" {
		return nil
	}
	select {
	case err := <-news.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *loop) noteNews(news told) {
	h := news.held
	if h.over || h.cancelled {
		news.done <- StaleClaim
		return
	}
	h.news.Progress = news.item.Progress
	if news.item.Checkpoint != "" {
		h.news.Checkpoint = news.item.Checkpoint
	}
	if news.item.Note != "" {
		h.news.Note = news.item.Note
	}
	h.waiting = append(h.waiting, news.done)
	l.extend(h, time.Now())
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
	delete(l.held, h.task.Claim)
	if h.cancel != nil {
		h.cancel()
	}
	for _, done := range h.waiting {
		done <- StaleClaim
	}
	h.waiting = nil
}

func (l *loop) dropAll() {
	for _, h := range l.held {
		l.forget(h)
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
