package transport

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/text"
	"github.com/pawlrun/pawl/pkg/history"
)

// Maximum sizes.
const (
	MaxInstance   = 200       // bytes of an instance id
	MaxName       = 200       // bytes of the name of an orchestration, event, activity or queue
	MaxPayload    = 512 << 10 // bytes of one payload
	MaxPartitions = 1024

	// maxEnvelope bounds a message without its payloads: headers, names, and the fields of a failure.
	maxEnvelope = 64 << 10
	// maxSealing is the maximum overhead of a sealed payload: its header, and the message and the stack of a failure.
	maxSealing = 32 << 10
	// maxInput and maxTask are the maximum sizes of a message of each stream with its headers, in bytes. The limit of the NATS server
	// (max_payload, 1 MiB unless configured otherwise) may be lower.
	maxInput = 2*MaxPayload + maxEnvelope // a start with its event, or the end of a child
	maxTask  = MaxPayload + maxEnvelope
)

// checkSize returns ErrTooLarge for a payload that exceeds the limit.
func checkSize(contentType string, n int) error {
	limit := MaxPayload
	if contentType == history.TypeSealed {
		limit += maxSealing
	}
	if n > limit {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, n, limit)
	}
	return nil
}

// CheckInstance returns an error that matches ErrBadInstance unless id consists of 1 to 200 characters of [A-Za-z0-9_:@=+~%.-] and
// neither begins nor ends with a dot.
func CheckInstance(id string) error {
	if id == "" || len(id) > MaxInstance {
		return fmt.Errorf("%w: %d characters, want 1 to %d", ErrBadInstance, len(id), MaxInstance)
	}
	for i := range len(id) {
		if c := id[i]; !alphanumeric(c) && strings.IndexByte("_:@=+~%.-", c) < 0 {
			return fmt.Errorf("%w: %q has %q, want only A-Z a-z 0-9 _ : @ = + ~ %% . - (EscapeID turns any text into an id)", ErrBadInstance, id, c)
		}
	}
	if id[0] == '.' || id[len(id)-1] == '.' {
		return fmt.Errorf("%w: %q begins or ends with a dot", ErrBadInstance, id)
	}
	return nil
}

// CheckName returns an error that matches ErrBadName unless name consists of 1 to 200 characters of [A-Za-z0-9_.-], neither begins nor
// ends with a dot, and has no two adjacent dots, so that it can be the end of a subject. It applies to orchestrations and events.
func CheckName(name string) error {
	if name != "" && (name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, "..")) {
		return fmt.Errorf("%w: %q begins or ends with a dot, or has two adjacent dots", ErrBadName, name)
	}
	return checkQueue(name)
}

// checkQueue is CheckName without the rule about dots, which are encoded in queue names.
func checkQueue(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: %d characters, want 1 to %d", ErrBadName, len(name), MaxName)
	}
	for i := range len(name) {
		if c := name[i]; !alphanumeric(c) && strings.IndexByte("_.-", c) < 0 {
			return fmt.Errorf("%w: %q has %q, want only A-Z a-z 0-9 _ . -", ErrBadName, name, c)
		}
	}
	return nil
}

// Names in the subjects of starts that are operator requests: a batch, and an imported instance.
const (
	verbBatch  = "batch"
	verbImport = "import"
	// verbRestart is the prefix of the name in the subject of a start that terminates the instance with its id.
	verbRestart = "restart."
)

// operatorStart returns the verb of a start that is an operator request; "" for any other start.
func operatorStart(name string) string {
	switch name {
	case message.BatchName:
		return verbBatch
	case message.ImportName:
		return verbImport
	default:
		return ""
	}
}

// maxSubject exceeds the longest subject of Pawl. It is below the server's limit: the server permanently closes a connection that sends a
// line of more than 4 KiB.
const maxSubject = 1 << 10

// checkSubject checks every subject before a message is published: parts of it may be untrusted, such as the name of a worker.
func checkSubject(s string) error {
	bad := s == "" || len(s) > maxSubject
	for i := 0; i < len(s) && !bad; i++ {
		bad = s[i] <= ' ' || s[i] == 0x7f
	}
	if bad {
		return fmt.Errorf("%w: subject %q", ErrMalformed, text.Cut(s, maxHeader))
	}
	return nil
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func checkNamespace(ns string) error {
	ok := ns != "" && len(ns) <= 64
	for i := range len(ns) {
		ok = ok && (alphanumeric(ns[i]) || ns[i] == '_' || ns[i] == '-')
	}
	if !ok {
		return fmt.Errorf("queue: namespace %q: want 1 to 64 characters of A-Z a-z 0-9 _ -", ns)
	}
	return nil
}

// instanceToken returns the subject token of an instance: the id with each dot replaced by a comma. No id contains a comma, so different
// ids have different tokens, and an id without dots is its own token.
func instanceToken(id string) string { return strings.ReplaceAll(id, ".", ",") }

// instanceOf returns the id with the given token. The error is ErrBadInstance if there is none.
func instanceOf(token string) (string, error) {
	id := strings.ReplaceAll(token, ",", ".")
	return id, CheckInstance(id)
}

// PartitionOf returns the partition that the server's {{partition(n,1)}} assigns to the token of an instance: 32-bit FNV-1a, modulo n. A
// test compares it with the server.
func PartitionOf(instance string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(instanceToken(instance))) // a hash.Hash never fails
	return int(h.Sum32() % uint32(n))               //nolint:gosec // 1 to MaxPartitions
}

// subjects builds the subjects of one namespace.
type subjects struct{ root string } // "pawl.<ns>."

func subjectsOf(ns string) subjects { return subjects{root: "pawl." + ns + "."} }

// input returns the subject of an input. Clients and orchestrators have different prefixes, so that permissions can distinguish them. A
// client starts a batch, and imports an instance, on a subject of operators, because these starts have the power of an operator.
func (s subjects) input(from message.Sender, instance string, k message.InputKind, name string) string {
	if verb := operatorStart(name); from == message.SenderClient && k == message.KindStart && verb != "" {
		k, name = message.KindOperate, verb
	}
	subject := s.root + from.String() + "." + instanceToken(instance) + "." + k.String()
	if name != "" {
		subject += "." + name
	}
	return subject
}

// inputOf returns the subject on which an input is published. A client terminates an instance by a start on a subject of operators.
func (s subjects) inputOf(in *message.OutInput) string {
	if in.Sender == message.SenderClient && in.Kind == message.KindStart && in.Reuse == history.ReuseTerminate {
		return s.input(in.Sender, in.Instance, message.KindOperate, verbRestart+in.Name)
	}
	return s.input(in.Sender, in.Instance, in.Kind, in.Name)
}

// source and transform define how the stream files inputs: source matches all inputs, and its second wildcard is the instance.
func (s subjects) source() string { return s.root + "*.*.>" }

// inputs lists the subjects of INPUTS, one per sender and kind of input. No stream stores messages on other subjects below "to" and
// "own", so publishers to those receive no acknowledgement.
func (s subjects) inputs() []string {
	var all []string
	for _, from := range [...]message.Sender{message.SenderClient, message.SenderOrchestrator} {
		for _, k := range inputKinds() {
			switch {
			case !sends(from, k):
			case k == message.KindStart, k == message.KindEvent, k == message.KindUpdate, k == message.KindOperate:
				all = append(all, s.input(from, "*", k, ">"))
			default:
				all = append(all, s.input(from, "*", k, ""))
			}
		}
	}
	return all
}

func (s subjects) transform(partitions int) string {
	return fmt.Sprintf("%sin.{{partition(%d,2)}}.{{wildcard(1)}}.{{wildcard(2)}}.>", s.root, partitions)
}

func (s subjects) in(p int) string {
	if p == AllPartitions {
		return s.root + "in.>"
	}
	return s.root + "in." + strconv.Itoa(p) + ".>"
}
func (s subjects) task(queue string) string  { return s.root + "task." + queueToken(queue) }
func (s subjects) taskAll() string           { return s.root + "task.*" }
func (s subjects) doorbell(p int) string     { return s.root + "doorbell." + strconv.Itoa(p) }
func (s subjects) hint(worker string) string { return s.root + "hint." + worker }
func (s subjects) request(p int, a Access) string {
	return s.root + "request." + strconv.Itoa(p) + "." + a.String()
}
func (s subjects) requestAny(p int) string { return s.root + "request." + strconv.Itoa(p) + ".*" }
func (s subjects) limit(p int) string      { return s.root + "limit." + strconv.Itoa(p) }
func (s subjects) notice() string          { return s.root + "notice" }
func (s subjects) owner(p int) string      { return s.root + "owner." + strconv.Itoa(p) }
func (s subjects) ownerAll() string        { return s.root + "owner.*" }
func (s subjects) workers() string         { return s.root + "workers" }
func (s subjects) drain() string           { return s.root + "drain" }
func (s subjects) turn(at string) string   { return s.root + "turn." + at }

// code returns the subject on which a member with an orchestration is searched: with a version of it or, if newest, with any version.
func (s subjects) code(name, version string, newest bool) string {
	token := "any"
	if !newest {
		token = "v" + queueToken(version)
	}
	return s.root + "code." + queueToken(name) + "." + token
}

func (s subjects) watch() string { return s.root + "watch" }

// object matches a part of all objects of a writer; objectPart is the subject of a part of one object, whose name begins with its writer.
func (s subjects) object(writer, part string) string {
	return s.root + "object." + writer + ".*." + part
}
func (s subjects) objectPart(name, part string) string { return s.root + "object." + name + "." + part }
func (s subjects) removing(name string) string         { return s.root + "removing." + name }

// change, ended and result are the subjects of an instance; docs/http-api.md documents their content.
func (s subjects) change(instance string) string { return s.root + "change." + instanceToken(instance) }
func (s subjects) ended(instance string) string  { return s.root + "ended." + instanceToken(instance) }
func (s subjects) result(instance string) string { return s.root + "result." + instanceToken(instance) }

// queueToken returns the subject token of a queue: its name with each dot replaced by an equals sign. No name contains an equals sign, so
// different queues have different tokens.
func queueToken(queue string) string { return strings.ReplaceAll(queue, ".", "=") }

func inputsStream(ns string) string { return "PAWL-" + ns + "-INPUTS" }
func tasksStream(ns string) string  { return "PAWL-" + ns + "-TASKS" }

func objectsStream(ns string) string { return "PAWL-" + ns + "-OBJECTS" }

// LevelGlobal is the level of the policy for all actions without a policy of their own or of their group.
const LevelGlobal = "global"

// CheckLevel returns an error that matches ErrBadName unless level is LevelGlobal, or action:, group: or pause: followed by a name.
func CheckLevel(level string) error {
	kind, name, _ := strings.Cut(level, ":")
	switch {
	case level == LevelGlobal:
		return nil
	case kind == "action", kind == "group", kind == "pause":
		if err := CheckName(name); err != nil {
			return fmt.Errorf("level %.*q: %w", maxHeader, level, err)
		}
		return nil
	default:
		return fmt.Errorf("%w: level %.*q, want action:NAME, group:NAME, pause:NAME or %s", ErrBadName, maxHeader, level, LevelGlobal)
	}
}
