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
	responseTasks   protowire.Number = 1
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
	var rest []byte
	err := fields(data, func(f field) error {
		switch f.number {
		case responseTasks:
			task, err := taskOf(f.bytes)
			r.Tasks = append(r.Tasks, task)
			return err
		case responseResults:
			refusal, err := refusalOf(f.bytes)
			if refusal != nil {
				if r.refusals == nil {
					r.refusals = map[int]*v1.Error{}
				}
				r.refusals[r.results] = refusal
			}
			r.results++
			return err
		}
		rest = append(rest, f.all...)
		return nil
	})
	if err != nil || rest == nil {
		return err
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(rest, &r.WorkResponse)
}

// refusalOf is the error of a TransitionResult.
func refusalOf(result []byte) (refusal *v1.Error, err error) {
	err = fields(result, func(f field) error {
		if f.number != resultError {
			return nil
		}
		if refusal == nil {
			refusal = &v1.Error{}
		}
		return proto.UnmarshalOptions{Merge: true}.Unmarshal(f.bytes, refusal)
	})
	return refusal, err
}

// field is one of a message: all of it, and what it holds.
type field struct {
	number protowire.Number
	all    []byte
	bytes  []byte // nil: it has no length
	varint uint64
	kind   protowire.Type
}

// fields visits the fields of a message.
func fields(message []byte, visit func(field) error) error {
	var f field
	for len(message) > 0 {
		tag := 1
		if first := message[0]; first >= 8 && first < 0x80 { // as most are
			f.number, f.kind = protowire.Number(first>>3), protowire.Type(first&7)
		} else if f.number, f.kind, tag = protowire.ConsumeTag(message); tag < 0 {
			return protowire.ParseError(tag)
		}
		var size int
		f.bytes = nil
		switch value := message[tag:]; f.kind {
		case protowire.BytesType:
			f.bytes, size = protowire.ConsumeBytes(value)
		case protowire.VarintType:
			f.varint, size = protowire.ConsumeVarint(value)
		default:
			size = protowire.ConsumeFieldValue(f.number, f.kind, value)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		f.all, message = message[:tag+size], message[tag+size:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}
