package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nuid"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/timers"
)

// Config configures a Keeper.
type Config struct {
	Redis      redis.UniversalClient
	Space      redisx.Space
	Partitions int
	Member     string        // unique among the live orchestrators
	TTL        time.Duration // ownership without renewal; default 5 s
	Renew      time.Duration // renewal interval; default 1 s
	Logger     *slog.Logger
	Outage     *outage.Reporter // may be nil

	// Inputs returns for how long nothing was received from the inputs stream, and for how long it had been received without a
	// gap of CutOff/2 before that. It must not block. nil: this member is never cut off.
	Inputs func() (silent, steady time.Duration)
	CutOff time.Duration // a member that has received nothing for so long is cut off; default 5 s
	// Gone reports whether NATS states that nothing listens for a member. Anything else is false: an answer, none before ctx ends, an error.
	// nil: a member is dead when its TTL is over.
	Gone func(ctx context.Context, member string) bool

	// Run is the partition's actor. It runs on a goroutine of its own, once for each tenure, until ctx ends: with the cause
	// ErrHandover after finishing outstanding work (nil error: everything it decided has been published), with any other cause at
	// once. An error of its own ends the tenure; the next one begins anew.
	Run func(ctx context.Context, t *Tenure) error
	// Released notifies the other members that a partition is free, or (-1) that a member joined or left.
	Released func(part int)
}

// Keeper acquires, renews and hands over the partitions of one process. Stop joins its goroutines.
type Keeper struct {
	cfg     Config
	scripts scripts
	run     *redisx.Runner // of its own: renewals do not queue behind turns
	began   time.Time
	nudge   chan struct{}
	stop    context.CancelFunc
	done    chan struct{}
	actors  sync.WaitGroup

	renewed time.Time // of the loop: when the last renewals were sent
	cutOff  bool      // of the loop: this member is cut off, and others are reading

	nudges atomic.Uint64 // from outside

	mu       sync.Mutex
	tenures  map[int]*Tenure
	busy     map[int]bool      // handing over, or being acquired
	members  []Member          // that partitions are assigned to
	deaths   map[string]bool   // members that are suspected; true: they are dead
	declined map[int]time.Time // by this member, until then
	resized  error             // the namespace has another number of partitions; nil: it has not
}

// NewKeeper makes a keeper; it does nothing before Start.
func NewKeeper(cfg Config) *Keeper {
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.Renew == 0 {
		cfg.Renew = min(DefaultRenew, cfg.TTL/5)
	}
	if cfg.CutOff == 0 {
		cfg.CutOff = DefaultCutOff
	}
	run := redisx.NewRunner(cfg.Redis).ReportTo(cfg.Outage)
	return &Keeper{
		cfg: cfg, run: run, scripts: newScripts(run, cfg.Space), began: time.Now(),
		nudge: make(chan struct{}, 1), done: make(chan struct{}),
		tenures: make(map[int]*Tenure), busy: make(map[int]bool), deaths: make(map[string]bool),
	}
}

// Start joins the members and begins to acquire. It waits, until ctx ends, while Redis is unavailable.
func (k *Keeper) Start(ctx context.Context) error {
	err := k.cfg.Outage.Await(ctx, outage.Redis, "join members", redisx.Unavailable, func(ctx context.Context) error {
		_, err := k.scripts.heartbeat(ctx, Member{Name: k.cfg.Member, Reach: Unproven}, false, k.cfg.TTL)
		return err
	})
	if err != nil {
		k.run.Close()
		close(k.done)
		return err
	}
	loop, stop := context.WithCancel(context.WithoutCancel(ctx))
	k.stop = stop
	k.cfg.Released(-1)
	go k.loop(loop)
	return nil
}

// Nudge starts a round now, because another member may have released a partition. It never blocks.
func (k *Keeper) Nudge() {
	k.nudges.Add(1)
	k.hurry()
}

// hurry starts a round now.
func (k *Keeper) hurry() {
	select {
	case k.nudge <- struct{}{}:
	default:
	}
}

// Owned lists the partitions that this process owns, ascending.
func (k *Keeper) Owned() []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]int, 0, len(k.tenures))
	for p := range k.tenures {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// Resized is not nil if this member takes no partitions any more, because the namespace has another number of them.
func (k *Keeper) Resized() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.resized
}

// leave has this member take no partitions any more.
func (k *Keeper) leave(why *ResizedError) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.resized == nil {
		k.cfg.Logger.Error("partitions resized, restart this process", "partitions", k.cfg.Partitions, "error", why)
	}
	k.resized = why
	for _, t := range k.tenures {
		t.end(ErrHandover)
	}
}

// Assigned reports whether this process should own a partition, by the members as last read.
func (k *Keeper) Assigned() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p := range k.cfg.Partitions {
		if Owner(k.members, p) == k.cfg.Member {
			return true
		}
	}
	return false
}

// Stop leaves the members, hands every partition over, and joins. If ctx ends first, the remaining partitions are dropped: others
// acquire them when the TTL is over.
func (k *Keeper) Stop(ctx context.Context) error {
	if k.stop == nil {
		return nil
	}
	k.stop()
	<-k.done
	_, err := k.scripts.heartbeat(ctx, Member{Name: k.cfg.Member, Reach: Unproven}, true, k.cfg.TTL)
	k.mu.Lock()
	for _, t := range k.tenures {
		t.end(ErrHandover)
	}
	k.mu.Unlock()
	joined := make(chan struct{})
	go func() { k.actors.Wait(); close(joined) }()
	select {
	case <-joined:
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("partition: hand-over: %w", context.Cause(ctx)))
		k.mu.Lock()
		for _, t := range k.tenures {
			close(t.drop)
		}
		k.mu.Unlock()
		<-joined
	}
	k.run.Close()
	return err
}

func (k *Keeper) loop(ctx context.Context) {
	defer close(k.done)
	for ctx.Err() == nil { // a nudge may be received before the end
		began := time.Now()
		k.round(ctx)
		select {
		case <-ctx.Done():
		case <-k.nudge:
			outage.Pause(ctx, nudgeGap-time.Since(began))
		case <-time.After(timers.Until(k.cfg.Renew)):
		}
	}
}

// nudgeGap is the shortest time between two rounds: notices may be forged, and each round costs Redis a script per partition.
const nudgeGap = 10 * time.Millisecond

// nudgeIn starts a round when a heartbeat, or an ownership, expires before the next round: the partitions of a dead owner are
// free then, and nothing else reports it.
func (k *Keeper) nudgeIn(d time.Duration) {
	if d < k.cfg.Renew {
		time.AfterFunc(d+time.Millisecond, k.hurry)
	}
}

// round renews the owned partitions, and acquires or hands over partitions as the members require. Each step is bounded by the
// renewal interval, so that a Redis that hangs does not keep trust from expiring.
func (k *Keeper) round(ctx context.Context) {
	if time.Since(k.renewed) > k.cfg.Renew/2 { // otherwise this round is an early one
		k.renewed = time.Now()
		k.renewAll()
	}
	// Not cancelled by Stop: a heartbeat that overtakes the leave keeps the member's partitions from the others for the TTL.
	beat, stop := context.WithTimeout(context.WithoutCancel(ctx), k.cfg.Renew*9/10) // so that the next round is in time
	own := Member{Name: k.cfg.Member, Reach: k.Reach()}
	k.mu.Lock()
	own.Declined = k.declining()
	k.mu.Unlock()
	resized := k.Resized() != nil
	living, err := k.scripts.heartbeat(beat, own, resized, k.cfg.TTL)
	stop()
	k.expire()
	if resized {
		return
	}
	// If they were not read, partitions of this member stay, and are acquired again if they were lost: their master may be another than that
	// of the members.
	members := k.members // which only this goroutine writes
	switch {
	case err == nil:
		living = k.bury(ctx, living)
		members = Eligible(living)
		k.nudgeIn(k.nextDeath(living))
		k.watchReach(living)
	case ctx.Err() == nil:
		redisx.LogFailure(k.cfg.Logger, "members not read, keeping partitions", err)
	}
	if ctx.Err() != nil {
		return
	}
	cutOff := own.Reach == CutOff && !slices.ContainsFunc(members, func(m Member) bool { return m.Name == k.cfg.Member })
	k.mu.Lock()
	k.members = members
	k.logReach(cutOff, len(k.tenures))
	k.mu.Unlock()
	for p := range k.cfg.Partitions {
		mine := Owner(members, p) == k.cfg.Member
		k.mu.Lock()
		t, busy := k.tenures[p], k.busy[p]
		switch {
		case busy:
		case mine && t == nil:
			k.busy[p] = true
			k.actors.Add(1)
			go k.runTenure(ctx, p)
		case t == nil || mine:
		case cutOff:
			k.handOverNow(t)
		default:
			t.end(ErrHandover)
		}
		k.mu.Unlock()
	}
}

// renewAll sends all renewals at once; they travel as one pipeline, and their replies are processed as they arrive.
func (k *Keeper) renewAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range k.tenures {
		start := time.Since(k.began)
		k.scripts.renewTenure(t, k.cfg.TTL, func(err error) {
			switch {
			case err == nil:
				t.trust.Store(int64(start + k.trustWindow()))
			case errors.Is(err, ErrLost), errors.Is(err, ErrRolledBack):
				t.end(err)
			default:
				redisx.LogFailure(k.cfg.Logger, "partition not renewed, retrying", err, "partition", t.Part)
			}
		})
	}
}

// trustWindow returns how long a renewal is trusted: a tenth of the TTL less than in Redis.
func (k *Keeper) trustWindow() time.Duration { return k.cfg.TTL - k.cfg.TTL/10 }

// expire ends the tenures that were not renewed in time.
func (k *Keeper) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := int64(time.Since(k.began))
	lost := 0
	defer func() {
		if lost > 0 {
			k.cfg.Logger.Warn("partitions lost, not renewed in time", "partitions", lost)
		}
	}()
	for _, t := range k.tenures {
		if t.trust.Load() < now && !t.over {
			t.over = true
			lost++
			t.end(fmt.Errorf("partition %d: not renewed for %v: %w", t.Part, k.trustWindow(), ErrLost))
		}
	}
}

// runTenure tries to acquire the partition and, if it does, runs the actor for the tenure.
func (k *Keeper) runTenure(loop context.Context, p int) {
	defer k.actors.Done()
	forget := func() {
		k.mu.Lock()
		delete(k.busy, p)
		delete(k.tenures, p)
		k.mu.Unlock()
	}
	start, nudges := time.Since(k.began), k.nudges.Load()
	token := nuid.Next()
	// Not cancelled by Stop: an acquisition that takes effect without a reply costs the others the TTL.
	ask, stopAsk := context.WithTimeout(context.WithoutCancel(loop), k.cfg.TTL/2)
	defer stopAsk()
	a := acquisition{part: p, of: k.cfg.Partitions, token: token, member: k.cfg.Member, ttl: k.cfg.TTL, silent: k.suspicious()}
	t, of, err := k.scripts.tryAcquire(ask, a)
	if t == nil && err == nil && k.dead(of.member) {
		a.dead = of.member
		t, of, err = k.scripts.tryAcquire(ask, a)
	}
	if why, ok := errors.AsType[*ResizedError](err); ok {
		k.leave(why)
		forget()
		return
	}
	if err != nil {
		redisx.LogFailure(k.cfg.Logger, "partition not acquired, retrying", err, "partition", p)
		_ = k.scripts.releaseToken(ask, &Tenure{Part: p, Token: token}, false) // it may have been acquired nevertheless
	}
	if t == nil || err != nil {
		forget()
		if err == nil {
			k.nudgeIn(of.remaining)
		}
		if k.nudges.Load() != nudges { // the partition may have been released meanwhile, and the round of the notice has left it out
			k.hurry()
		}
		return
	}
	ctx, end := context.WithCancelCause(context.WithoutCancel(loop))
	defer end(nil)
	t.end, t.decline = end, func() { k.decline(p) }
	t.trust.Store(int64(start + k.trustWindow()))
	k.mu.Lock()
	if loop.Err() != nil { // Stop has begun, and does not have this tenure
		end(ErrHandover)
	}
	k.tenures[p] = t
	delete(k.busy, p)
	k.mu.Unlock()
	k.cfg.Logger.Debug("partition gained", "partition", p, "epoch", t.Epoch, "applied", t.Applied.Seq, "clean", t.Clean)

	err = k.cfg.Run(ctx, t)
	k.endTenure(ctx, t, err)
	if err != nil && time.Since(k.began)-start < k.cfg.Renew { // the cause is probably still there
		outage.Pause(loop, k.cfg.Renew)
	}
	forget()
	k.hurry()
}

// endTenure ends a tenure. A partition whose actor finished is released as clean.
func (k *Keeper) endTenure(ctx context.Context, t *Tenure, err error) {
	cause := context.Cause(ctx)
	k.mu.Lock()
	k.busy[t.Part] = true
	delete(k.tenures, t.Part)
	expired := t.over
	k.mu.Unlock()
	clean := err == nil && errors.Is(cause, ErrHandover)
	switch {
	case clean:
	case expired, errors.Is(cause, ErrCutOff): // one line for all partitions was logged
	case errors.Is(cause, ErrHandover): // the next owner repairs what could not be finished
		k.cfg.Logger.Info("partition handed over unfinished", "partition", t.Part, "cause", err)
	default:
		redisx.LogFailure(k.cfg.Logger, "partition lost", cmp.Or(err, cause), "partition", t.Part)
	}
	if k.releaseToken(t, clean) {
		k.cfg.Released(t.Part)
	}
}

// releaseToken releases the token, and reports whether that succeeded.
func (k *Keeper) releaseToken(t *Tenure, clean bool) bool {
	ctx, stop := context.WithTimeout(context.Background(), k.cfg.TTL)
	defer stop()
	if err := k.scripts.releaseToken(ctx, t, clean); err != nil {
		redisx.LogFailure(k.cfg.Logger, "partition not released, left to expire", err, "partition", t.Part)
		return false
	}
	k.cfg.Logger.Debug("partition released", "partition", t.Part, "clean", clean)
	return true
}
