package dfsmr

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	v1 "dfsmr/v1"
)

// response is a WorkResponse. Of the results only the refusals are read: of a report that was
// accepted the loop needs to know no more than that.
type response struct {
	v1.WorkResponse
	results  int
	refusals map[int]*v1.Error // by the number of the result
}

// request is a WorkRequest whose reports are bytes already.
type request struct {
	v1.WorkRequest
	reports [][]byte
}

// report is a TransitionRequest as bytes, and what the log says of it.
type report struct {
	bytes               []byte
	transition, failure string
}

// The fields of messages by their numbers.
const (
	reportInstance   protowire.Number = 2
	reportTransition protowire.Number = 3
	reportClaim      protowire.Number = 5

	requestReports  protowire.Number = 2
	responseResults protowire.Number = 2
	resultError     protowire.Number = 2
)

// reportOf is the report of a task. It fails where a text is not UTF-8.
func reportOf(t *Task, message *v1.TransitionRequest) (report, error) {
	message.Instance, message.Claim = t.Instance, t.Claim
	bytes, err := proto.Marshal(message)
	return report{bytes, message.Transition, message.Error}, err
}

// transitionOf is the report of a transition and no more, which most are.
func transitionOf(t *Task, transition string) report {
	bytes := make([]byte, 0, len(t.Instance)+len(t.Claim)+len(transition)+16)
	bytes = protowire.AppendTag(bytes, reportInstance, protowire.BytesType)
	bytes = protowire.AppendString(bytes, t.Instance)
	bytes = protowire.AppendTag(bytes, reportTransition, protowire.BytesType)
	bytes = protowire.AppendString(bytes, transition)
	bytes = protowire.AppendTag(bytes, reportClaim, protowire.BytesType)
	bytes = protowire.AppendString(bytes, t.Claim)
	return report{bytes: bytes, transition: transition}
}

// codec is that of protobuf, for requests and responses as well.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(message any) ([]byte, error) {
	r, ok := message.(*request)
	if !ok {
		return proto.Marshal(message.(proto.Message))
	}
	size := proto.Size(&r.WorkRequest)
	for _, one := range r.reports {
		size += len(one) + 8
	}
	bytes, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 0, size), &r.WorkRequest)
	for _, one := range r.reports {
		bytes = protowire.AppendTag(bytes, requestReports, protowire.BytesType)
		bytes = protowire.AppendBytes(bytes, one)
	}
	return bytes, err
}

func (codec) Unmarshal(data []byte, message any) error {
	r, ok := message.(*response)
	if !ok {
		return proto.Unmarshal(data, message.(proto.Message))
	}
	rest := make([]byte, 0, len(data))
	err := fields(data, func(number protowire.Number, field, value []byte) error {
		if number != responseResults {
			rest = append(rest, field...)
			return nil
		}
		refusal, err := refusalOf(value)
		if refusal != nil {
			if r.refusals == nil {
				r.refusals = map[int]*v1.Error{}
			}
			r.refusals[r.results] = refusal
		}
		r.results++
		return err
	})
	if err != nil {
		return err
	}
	return proto.Unmarshal(rest, &r.WorkResponse)
}

// refusalOf is the error of a TransitionResult.
func refusalOf(result []byte) (refusal *v1.Error, err error) {
	err = fields(result, func(number protowire.Number, _, value []byte) error {
		if number != resultError {
			return nil
		}
		if refusal == nil {
			refusal = &v1.Error{}
		}
		return proto.UnmarshalOptions{Merge: true}.Unmarshal(value, refusal)
	})
	return refusal, err
}

// fields visits the fields of a message: with its tag, and the value of one that has a length.
func fields(message []byte, visit func(number protowire.Number, field, value []byte) error) error {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(message[tag:])
		}
		if err := visit(number, message[:tag+size], value); err != nil {
			return err
		}
		message = message[tag+size:]
	}
	return nil
}
