package history

// UnreadEvents is the number of events of one name that an instance had not received when it ended.
type UnreadEvents struct {
	Event string `json:"event"` // name; empty: all names that are not listed
	Count uint64 `json:"count"`
}
