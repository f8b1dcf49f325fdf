package history

// UpdateReceived is a request to the instance that requires an answer. It is recorded when it is taken from the inbox, whether or not
// code receives it. An update that a validator rejects, or whose deadline has passed, is answered without being recorded.
type UpdateReceived struct {
	Head
	Name     string
	UpdateID string // chosen by the sender, unique among the updates of the name; never empty
	Payload  Payload
	By       string
	Reply    string // subject for the answer; empty: none is sent
	Deadline int64  // code does not receive the update after this time, Unix ms; 0: none
}

// UpdateAnswered answers an update. Updates that are open at the end of an execution have no such event: the next execution receives
// them, or they are answered with CodeEnded.
type UpdateAnswered struct {
	Head
	Update  uint64   // id of the UpdateReceived
	Result  Payload  // set if Failure is nil
	Failure *Failure // reason of the rejection; nil: not rejected
}
