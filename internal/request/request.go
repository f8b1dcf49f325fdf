package request

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/eventcodec"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/internal/wire"
	"github.com/pawlrun/pawl/pkg/history"
)

// Request is a request to the owner of a partition: one of the types of this package.
type Request interface {
	operation() operation
	fields(c *wire.Codec)
}

// operation identifies the type of a request.
type operation uint8

const (
	opAwait        operation = 1
	opDescribe     operation = 2
	opHistory      operation = 3
	opList         operation = 4
	opStalled      operation = 5
	opStatus       operation = 6
	opLimits       operation = 7
	opLimit        operation = 8
	opWaiters      operation = 9
	opClear        operation = 10
	opPolicies     operation = 11
	opSetPolicy    operation = 12
	opDeletePolicy operation = 13
	opCount        operation = 14
	opHolders      operation = 15
	opDemand       operation = 16
	opVersions     operation = 17
	opStart        operation = 18
	opUpdate       operation = 30
	opQuery        operation = 31
	opOwner        operation = 40
	opHealth       operation = 41
	opRequeue      operation = 42
	opDropRefused  operation = 43
)

// constructors return an empty request of each operation.
var constructors = byOperation(
	empty[Await], empty[Describe], empty[History], empty[List], empty[Stalled], empty[Status], empty[Limits], empty[Limit], empty[Waiters], empty[Holders],
	empty[Clear], empty[Policies], empty[SetPolicy], empty[DeletePolicy], empty[Count], empty[Demand], empty[Versions], empty[Start], empty[Update],
	empty[Query], empty[Owner], empty[Health], empty[Requeue], empty[DropRefused],
)

func empty[T any, R interface {
	*T
	Request
}]() Request {
	return R(new(T))
}

func byOperation(all ...func() Request) map[operation]func() Request {
	m := make(map[operation]func() Request, len(all))
	for _, f := range all {
		m[f().operation()] = f
	}
	return m
}

// AccessOf returns the permission that a request requires.
func AccessOf(q Request) transport.Access {
	switch q.(type) {
	case *Clear, *SetPolicy, *DeletePolicy, *Requeue, *DropRefused:
		return transport.AccessAdmin
	default:
		return transport.AccessRead
	}
}

// InstanceOf returns the instance that a request is about, or "" if it is not about a single instance.
func InstanceOf(q Request) string {
	switch q := q.(type) {
	case *Await:
		return q.Instance
	case *Describe:
		return q.Instance
	case *History:
		return q.Instance
	case *Status:
		return q.Instance
	case *Start:
		return q.Instance
	case *Update:
		return q.Instance
	case *Query:
		return q.Instance
	case *Requeue:
		return q.Instance
	case *DropRefused:
		return q.Instance
	default:
		return ""
	}
}

// Await requests the outcome of an instance. Reply: Answered, without an answer while the instance has not ended; in that case the answer is
// published to ReplyTo when it ends.
type Await struct {
	Instance string
	ReplyTo  string // empty: no answer is published
}

func (*Await) operation() operation   { return opAwait }
func (q *Await) fields(c *wire.Codec) { c.String(&q.Instance); c.String(&q.ReplyTo) }

// Status requests the custom status of an instance once its version is higher than After, or the instance has ended. Reply: Answered, as for
// Await.
type Status struct {
	Instance string
	ReplyTo  string
	After    uint64 // version that the client has; 0: none
}

func (*Status) operation() operation { return opStatus }
func (q *Status) fields(c *wire.Codec) {
	c.String(&q.Instance)
	c.String(&q.ReplyTo)
	c.Uint(&q.After)
}

// Describe requests the state of an instance. Reply: Description. The owner answers with a Problem if the partition has not applied the input
// Accepted, because the state does not reflect that input yet.
type Describe struct {
	Instance string
	Accepted uint64 // sequence in INPUTS; 0: none
}

func (*Describe) operation() operation   { return opDescribe }
func (q *Describe) fields(c *wire.Codec) { c.String(&q.Instance); c.Uint(&q.Accepted) }

// History requests a page of the events of an execution. Reply: HistoryPage.
type History struct {
	Instance  string
	Execution uint64 // 0: the latest
	After     uint64 // id of the last event of the previous page; 0: the first page
	Limit     int    // 0: chosen by the owner
}

func (*History) operation() operation { return opHistory }
func (q *History) fields(c *wire.Codec) {
	c.String(&q.Instance)
	c.Uint(&q.Execution)
	c.Uint(&q.After)
	c.Count(&q.Limit)
}

// List requests a page of the instances of partitions, the latest change of status first. Reply: InstancePage.
type List struct {
	Where      string // a filter, see package filter; empty: all
	Cursor     string // from the previous page; empty: the first page
	Limit      int    // 0: chosen by the owner
	Partitions []int  // the page covers those of them that the process owns; empty: only the partition of the request
	Oldest     bool   // reverses the order: the oldest change first
}

func (*List) operation() operation { return opList }
func (q *List) fields(c *wire.Codec) {
	c.String(&q.Where)
	c.String(&q.Cursor)
	c.Count(&q.Limit)
	wire.List(c, &q.Partitions, (*wire.Codec).Count)
	c.Bool(&q.Oldest)
}

// Stalled requests a page of the stalled instances of the partition. Reply: InstancePage.
type Stalled struct {
	Cursor string
	Limit  int
}

func (*Stalled) operation() operation   { return opStalled }
func (q *Stalled) fields(c *wire.Codec) { c.String(&q.Cursor); c.Count(&q.Limit) }

// Requeue retries a stalled instance at once. Reply: Done.
type Requeue struct{ Instance string }

func (*Requeue) operation() operation   { return opRequeue }
func (q *Requeue) fields(c *wire.Codec) { c.String(&q.Instance) }

// DropRefused removes the refused inputs of an id from the list of stalled instances. Reply: Done.
type DropRefused struct{ Instance string }

func (*DropRefused) operation() operation   { return opDropRefused }
func (q *DropRefused) fields(c *wire.Codec) { c.String(&q.Instance) }

// MaxSince bounds the length of Count.Since.
const MaxSince = 4

// Count requests the number of instances of partitions that pass a filter, grouped by a field. Reply: Counts.
type Count struct {
	Where      string  // a filter, see package filter; empty: all
	By         string  // a field or an attribute; empty: no groups, all instances are in Other
	Since      []int64 // Unix milliseconds; for each, the instances that have ended since then are counted: at most MaxSince, and only by status without Where
	Within     uint64  // milliseconds after which no more records are read; 0: the limit of a request applies
	Partitions []int   // the counts cover those of them that the process owns; empty: only the partition of the request
}

func (*Count) operation() operation { return opCount }
func (q *Count) fields(c *wire.Codec) {
	c.String(&q.Where)
	c.String(&q.By)
	wire.List(c, &q.Since, (*wire.Codec).Int)
	c.Uint(&q.Within)
	wire.List(c, &q.Partitions, (*wire.Codec).Count)
}

// Demand requests how much work a task queue has. Any owner can answer it. Reply: QueueDemand.
type Demand struct{ Queue string }

func (*Demand) operation() operation   { return opDemand }
func (q *Demand) fields(c *wire.Codec) { c.String(&q.Queue) }

// Versions requests the code that the owner of the partition has, and the versions of the instances of the partition that have not ended.
// Reply: OwnerVersions.
type Versions struct{}

func (*Versions) operation() operation { return opVersions }
func (*Versions) fields(*wire.Codec)   {}

// Limits requests a page of the limits in use that belong to the partition. Reply: LimitPage.
type Limits struct {
	Action string // empty: all
	Cursor string
	Limit  int
}

func (*Limits) operation() operation { return opLimits }
func (q *Limits) fields(c *wire.Codec) {
	c.String(&q.Action)
	c.String(&q.Cursor)
	c.Count(&q.Limit)
}

// Limit requests the state of one limit. Any owner can answer this request and the ones below. Reply: LimitPage, with one limit.
type Limit struct {
	Action string
	Key    string // value of the action's key, verbatim or as in LimitStats
}

func (*Limit) operation() operation   { return opLimit }
func (q *Limit) fields(c *wire.Codec) { c.String(&q.Action); c.String(&q.Key) }

// Waiters requests a page of the waiters of a limit, in order. Reply: WaiterPage.
type Waiters struct {
	Action, Key string
	Cursor      string
	Limit       int
}

func (*Waiters) operation() operation { return opWaiters }
func (q *Waiters) fields(c *wire.Codec) {
	c.String(&q.Action)
	c.String(&q.Key)
	c.String(&q.Cursor)
	c.Count(&q.Limit)
}

// Holders requests the holders of a limit, in no order. Reply: WaiterPage.
type Holders struct {
	Action, Key string
	Limit       int // 0: MaxLimitRows
}

func (*Holders) operation() operation { return opHolders }
func (q *Holders) fields(c *wire.Codec) {
	c.String(&q.Action)
	c.String(&q.Key)
	c.Count(&q.Limit)
}

// Clear rejects the waiters of a limit. Reply: Cleared.
type Clear struct{ Action, Key string }

func (*Clear) operation() operation   { return opClear }
func (q *Clear) fields(c *wire.Codec) { c.String(&q.Action); c.String(&q.Key) }

// Policies requests the policies that were set at run time. Reply: PolicyList.
type Policies struct {
	Example string // orchestration whose input is described; empty: none
}

func (*Policies) operation() operation   { return opPolicies }
func (q *Policies) fields(c *wire.Codec) { c.String(&q.Example) }

// SetPolicy sets the policy of a level. Reply: Done.
type SetPolicy struct {
	Level    string
	Policy   history.Policy
	By, Text string // requester and reason
}

func (*SetPolicy) operation() operation { return opSetPolicy }
func (q *SetPolicy) fields(c *wire.Codec) {
	c.String(&q.Level)
	c.Record(func(c *wire.Codec) { eventcodec.PolicyFields(c, &q.Policy) })
	c.String(&q.By)
	c.String(&q.Text)
}

// DeletePolicy deletes the policy of a level. Reply: Done.
type DeletePolicy struct {
	Level    string
	By, Text string // requester and reason
}

func (*DeletePolicy) operation() operation { return opDeletePolicy }
func (q *DeletePolicy) fields(c *wire.Codec) {
	c.String(&q.Level)
	c.String(&q.By)
	c.String(&q.Text)
}

// ListCursor encodes the position of an instance in the lists of all partitions.
func ListCursor(updated int64, instance string) string {
	return strconv.FormatInt(updated, 10) + "." + instance
}

// ParseListCursor decodes a ListCursor. The empty cursor stands for the beginning.
func ParseListCursor(cursor string) (updated int64, instance string, _ error) {
	if cursor == "" {
		return 0, "", nil
	}
	at, instance, _ := strings.Cut(cursor, ".")
	updated, err := strconv.ParseInt(at, 10, 64)
	if err != nil || transport.CheckInstance(instance) != nil {
		return 0, "", fmt.Errorf("cursor %.40q was not returned by a list", cursor)
	}
	return updated, instance, nil
}
