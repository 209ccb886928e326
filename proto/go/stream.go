package dfsmr

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	v1 "dfsmr/v1"
)

// stream is one Work stream: one goroutine at a time reads it, and one sends.
type stream struct {
	work   v1.RunnerService_WorkClient
	cancel context.CancelFunc
	news   chan struct{} // there is something to be sent
	over   chan struct{} // closed: it is, and why is in `end`
	end    error
	sends  bool // a goroutine does, or nothing is sent any more; the loop's mu guards it

	offset  time.Duration // the server's clock minus ours
	virtual bool          // a clock that goes by order only
}

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
	s := &stream{cancel: cancel, news: make(chan struct{}, 1), over: make(chan struct{})}
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
	work, err := l.worker.client.Work(ctx, grpc.ForceCodec(codec{}))
	if err == nil {
		err = work.Send(&v1.WorkRequest{Open: open})
	}
	if err != nil && !errors.Is(err, io.EOF) { // of EOF Recv tells why
		s.end = err
		return s
	}
	s.work = work
	go l.sendNews(ctx, s)
	return s
}

// push has the goroutine of the stream send what there is, for those that cannot wait for it.
func (l *loop) push() {
	if l.stream == nil || !l.hasNews() {
		return
	}
	select {
	case l.stream.news <- struct{}{}:
	default:
	}
}

func (l *loop) sendNews(ctx context.Context, s *stream) {
	for {
		select {
		case <-s.news:
			l.mu.Lock()
			l.send(s)
			l.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// send sends all there is, and what comes meanwhile; it gives up mu while it does. Where another one
// sends already, that one goes on with it.
func (l *loop) send(s *stream) {
	if s.sends {
		return
	}
	s.sends = true
	for l.stream == s && l.hasNews() {
		next := l.fill()
		l.crew.answered(len(l.sentReports) == 0)
		l.mu.Unlock()
		more := s.write(next)
		l.mu.Lock()
		if !more {
			return
		}
	}
	s.sends = false
}

// write sends a message; nil: no more comes. False: nothing can be sent any more.
func (s *stream) write(next *request) bool {
	if next == nil {
		_ = s.work.CloseSend()
		return false
	}
	return s.work.SendMsg(next) == nil // else Recv tells why
}

// read reads one message. False: the stream is over.
func (l *loop) read(s *stream) bool {
	heard := &response{}
	if s.end = s.work.RecvMsg(heard); s.end != nil {
		close(s.over)
		s.cancel()
		return false
	}
	l.hear(s, heard)
	return true
}

// take takes up a new stream: all in hand is extended, and what was not answered sent again.
func (l *loop) take(s *stream) error {
	l.opening = false
	if s.end != nil {
		s.cancel()
		return l.broke(s.end)
	}
	l.stream = s
	l.crew.answered(true) // what was told is to be told again
	l.crew.readFrom(s)
	for _, h := range l.sentReports {
		if !h.over {
			l.reports = append(l.reports, h)
		}
	}
	for _, e := range l.sentExtends {
		if e.held.checkpoint == "" {
			e.held.checkpoint = e.checkpoint
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

// fill moves as much as a message takes from what is to be sent to what was. nil: the stream closes.
func (l *loop) fill() *request {
	next, room := &request{}, mostBytes
	next.Drain = l.drain
	l.drain = false
	for ; len(l.reports) > 0 && len(next.reports) < mostItems; l.reports = l.reports[1:] {
		h := l.reports[0]
		if h.over {
			continue
		}
		if len(h.report.bytes) > room && room != mostBytes {
			break
		}
		room -= len(h.report.bytes)
		next.reports = append(next.reports, h.report.bytes)
		l.sentReports = append(l.sentReports, h)
	}
	for ; len(l.extends) > 0 && len(next.Extends) < mostItems; l.extends = l.extends[1:] {
		h := l.extends[0]
		h.queued = false
		if h.over {
			continue
		}
		if room -= len(h.checkpoint); room < 0 {
			h.queued = true
			break
		}
		next.Extends = append(next.Extends, &v1.ExtendRequest_Item{Instance: h.task.Instance,
			Claim: h.task.Claim, Progress: h.progress, Checkpoint: h.checkpoint, Note: h.note})
		l.sentExtends = append(l.sentExtends, sentExtend{h, h.checkpoint, h.waiting})
		h.checkpoint, h.waiting = "", nil
	}
	returns := len(l.returns)
	if returns > mostItems {
		returns = mostItems
	}
	next.Relinquishes, l.returns = l.returns[:returns], l.returns[returns:]
	if l.closing && len(next.reports) == 0 && proto.Size(&next.WorkRequest) == 0 {
		return nil
	}
	return next
}
