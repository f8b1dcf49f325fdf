package transport

import (
	"slices"

	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/internal/sealing"
)

// Role is the purpose of a NATS user. Each role has the permissions of PermissionsOf, and its own inbox prefix, so that it cannot read
// the replies to others.
type Role string

// The roles.
const (
	RoleOrchestrator Role = "orchestrator" // its HTTP API may read; for changes it also needs the permissions of an operator
	RoleWorker       Role = "worker"
	RoleClient       Role = "client"   // starts, sends, cancels, awaits, reads
	RoleEvents       Role = "events"   // sends events, and nothing else
	RoleOperator     Role = "operator" // a client that also purges, pauses, terminates, rewinds and retries, clears queues, changes policies, lists and drains workers, checks objects
)

// Roles lists all roles.
func Roles() []Role {
	return []Role{RoleOrchestrator, RoleWorker, RoleClient, RoleEvents, RoleOperator}
}

// Permissions are the subjects that a NATS user may use, in the format of nats-server: with wildcards.
type Permissions struct {
	Publish, Subscribe []string
}

// UserInfoSubject is the subject on which a user can request its own permissions.
const UserInfoSubject = "$SYS.REQ.USER.INFO"

// PermissionsOf returns the permissions that a role needs in a namespace, sorted; ok is false if there is no such role. inbox returns the
// inbox prefix of a role.
func PermissionsOf(namespace string, r Role, inbox func(Role) string) (Permissions, bool) {
	s := subjectsOf(namespace)
	var p Permissions
	switch r {
	case RoleOrchestrator:
		p = s.orchestrator(namespace, inbox)
	case RoleWorker:
		p = s.worker(namespace, inbox)
	case RoleClient:
		p = s.client(namespace)
	case RoleEvents:
		p = Permissions{Publish: []string{s.input(message.SenderClient, "*", message.KindEvent, ">"), s.object(sealing.ByClient, "*")}}
	case RoleOperator:
		p = s.client(namespace)
		p.Publish = append(p.Publish, s.input(message.SenderClient, "*", message.KindPurge, ""), s.input(message.SenderClient, "*", message.KindOperate, ">"), s.requestAll(AccessAdmin), s.workers(), s.drain(),
			js("STREAM.INFO."+objectsStream(namespace))) // for the list of objects
	default:
		return p, false
	}
	p.Publish = append(p.Publish, UserInfoSubject)
	p.Subscribe = append(p.Subscribe, inbox(r)+".>")
	slices.Sort(p.Publish)
	slices.Sort(p.Subscribe)
	p.Publish, p.Subscribe = slices.Compact(p.Publish), slices.Compact(p.Subscribe) // inboxes may be shared
	return p, true
}

func (s subjects) orchestrator(ns string, inbox func(Role) string) Permissions {
	inputs, tasks := inputsStream(ns), tasksStream(ns)
	p := Permissions{
		Publish: []string{
			s.input(message.SenderOrchestrator, "*", message.KindStart, ">"), s.input(message.SenderOrchestrator, "*", message.KindEvent, ">"),
			s.input(message.SenderOrchestrator, "*", message.KindCancel, ""), s.input(message.SenderOrchestrator, "*", message.KindDone, ""), s.input(message.SenderOrchestrator, "*", message.KindPurge, ""),
			s.input(message.SenderOrchestrator, "*", message.KindOperate, ">"),
			s.taskAll(), s.hint("*"), s.limitAll(), s.notice(), s.ownerAll(), s.workers(),
			s.change("*"), s.ended("*"),
			s.requestAll(AccessRead), s.watch(), // for the HTTP API
			s.turn("*"), s.codeAll(), // to members that have code
			js("STREAM.PURGE." + inputs), js("STREAM.DELETE." + tasks), // to delete a stream that lost its leader: see TasksWatch
			js("CONSUMER.CREATE." + inputs + ".>"), js("CONSUMER.DELETE." + inputs + ".*"), js("CONSUMER.MSG.NEXT." + inputs + ".*"),
		},
		Subscribe: []string{
			s.doorbellAll(), s.root + "request.*.*", s.limitAll(), s.notice(), s.ownerAll(), s.watch(), s.result("*"),
			s.turn("*"), s.codeAll(),
			s.change("*"), // for the HTTP API
		},
	}
	for _, stream := range []string{inputs, tasks} {
		for _, call := range []string{"STREAM.CREATE.", "STREAM.UPDATE.", "STREAM.INFO.", "STREAM.MSG.GET."} {
			p.Publish = append(p.Publish, js(call+stream))
		}
	}
	for _, call := range []string{"STREAM.CREATE.", "STREAM.UPDATE.", "STREAM.INFO.", "STREAM.PURGE."} {
		p.Publish = append(p.Publish, js(call+objectsStream(ns)))
	}
	p.Publish = append(append(p.Publish, s.objects(ns, sealing.ByOrchestrator)...), s.removing("*.*"), js("DIRECT.GET."+objectsStream(ns)+"."+s.removing("*.*")))
	for _, to := range []Role{RoleClient, RoleOperator, RoleOrchestrator} { // for replies
		p.Publish = append(p.Publish, inbox(to)+".>")
	}
	return p
}

func (s subjects) worker(ns string, inbox func(Role) string) Permissions {
	tasks := tasksStream(ns)
	return Permissions{
		Publish: append(s.objects(ns, sealing.ByWorker),
			js("STREAM.INFO."+inputsStream(ns)), js("STREAM.INFO."+tasks),
			js("CONSUMER.CREATE."+tasks+".>"), js("CONSUMER.INFO."+tasks+".*"), js("CONSUMER.MSG.NEXT."+tasks+".*"), "$JS.ACK."+tasks+".>",
			s.doorbellAll(), inbox(RoleOperator)+".>", inbox(RoleOrchestrator)+".>", // to the roles that request the list of workers
		),
		Subscribe: []string{s.hint("*"), s.workers(), s.drain()},
	}
}

func (s subjects) client(ns string) Permissions {
	return Permissions{
		Publish: append(s.objects(ns, sealing.ByClient),
			s.input(message.SenderClient, "*", message.KindStart, ">"), s.input(message.SenderClient, "*", message.KindEvent, ">"), s.input(message.SenderClient, "*", message.KindUpdate, ">"),
			s.input(message.SenderClient, "*", message.KindCancel, ""),
			s.requestAll(AccessRead), js("STREAM.INFO."+inputsStream(ns)), // for the number of partitions
			s.watch(), s.result("*"),
		),
		Subscribe: []string{s.ownerAll(), s.change("*"), s.ended("*")},
	}
}

// objects returns the subjects on which a writer writes its objects, and reads objects whose names it has.
func (s subjects) objects(ns, writer string) []string {
	return []string{s.object(writer, "*"), js("DIRECT.GET." + objectsStream(ns) + "." + s.root + "object.>")}
}

func (s subjects) requestAll(a Access) string { return s.root + "request.*." + a.String() }
func (s subjects) doorbellAll() string        { return s.root + "doorbell.*" }
func (s subjects) limitAll() string           { return s.root + "limit.*" }
func (s subjects) codeAll() string            { return s.root + "code.*.*" }

func js(call string) string { return "$JS.API." + call }
