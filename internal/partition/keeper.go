package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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

	// Inputs returns for how long nothing was received from INPUTS, and for how long inputs had been received before that without a
	// gap of CutOff/2. It must not block. nil: this member is never cut off.
	Inputs func() (silent, steady time.Duration)
	CutOff time.Duration // time without inputs after which a member is cut off; default 5 s
	// Gone reports whether NATS confirms that no process listens for a member. It returns false in all other cases: an answer, a timeout of
	// ctx, an error. nil: only the TTL decides whether a member is dead.
	Gone func(ctx context.Context, member string) bool

	// Run is the partition's actor. It runs on a goroutine of its own, once per tenure, until ctx ends: with the cause
	// ErrHandover it returns after finishing outstanding work (nil error: everything it decided has been published), with any other cause at
	// once. If it returns an error on its own, the tenure ends and a new one begins.
	Run func(ctx context.Context, t *Tenure) error
	// Released notifies the other members that a partition is free, or, with -1, that a member has joined.
	Released func(part int)
}

// Keeper acquires, renews and hands over the partitions of one process. Stop joins its goroutines.
type Keeper struct {
	cfg     Config
	scripts scripts
	run     *redisx.Runner // separate, so that renewals do not queue up behind turns
	began   time.Time
	wake    chan struct{} // starts a round
	stop    context.CancelFunc
	done    chan struct{}
	actors  sync.WaitGroup

	renewed time.Time // when the last renewals were sent; used by loop only
	cutOff  bool      // this member is cut off while others are reading; used by loop only

	nudges atomic.Uint64 // number of calls of Nudge

	mu       sync.Mutex
	tenures  map[int]*Tenure
	busy     map[int]bool      // partitions that are being handed over or acquired
	members  []Member          // eligible members, to which partitions are assigned
	deaths   map[string]bool   // suspected members; true: dead
	declined map[int]time.Time // until when this member declines partitions
	resized  error             // *ResizedError if the namespace has another number of partitions
}

// NewKeeper returns a keeper; it does nothing before Start.
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
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		tenures: make(map[int]*Tenure), busy: make(map[int]bool), deaths: make(map[string]bool),
	}
}

// Start joins the members and begins to acquire partitions. While Redis is unavailable, it waits until ctx ends.
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

// Nudge starts a round at once, because another member may have released a partition. It never blocks.
func (k *Keeper) Nudge() {
	k.nudges.Add(1)
	k.startRound()
}

func (k *Keeper) startRound() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Owned returns the partitions that this process owns, in ascending order.
func (k *Keeper) Owned() []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.tenures))
}

// Resized returns an error once this member has stopped acquiring partitions because the namespace has another number of them.
func (k *Keeper) Resized() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.resized
}

// leave hands over all partitions, and keeps this member from acquiring any.
func (k *Keeper) leave(cause *ResizedError) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.resized == nil {
		k.cfg.Logger.Error("partitions resized, restart this process", "partitions", k.cfg.Partitions, "error", cause)
	}
	k.resized = cause
	for _, t := range k.tenures {
		t.end(ErrHandover)
	}
}

// Assigned reports whether this process should own any partition, according to the members that were read last.
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

// Stop removes this member, hands over its partitions, and waits for its goroutines. If ctx ends first, the remaining partitions are dropped:
// others acquire them when the TTL expires.
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
	for ctx.Err() == nil { // select may prefer wake although ctx has ended
		began := time.Now()
		k.round(ctx)
		select {
		case <-ctx.Done():
		case <-k.wake:
			outage.Sleep(ctx, minRoundInterval-time.Since(began))
		case <-time.After(timers.Until(k.cfg.Renew)):
		}
	}
}

// minRoundInterval limits the rate of rounds: notices may be forged, and each round runs a script per partition in Redis.
const minRoundInterval = 10 * time.Millisecond

// startRoundIn starts a round after d, when a heartbeat or an ownership expires, if that is before the next regular round: the partitions of a
// dead owner are free then, and no notice reports it.
func (k *Keeper) startRoundIn(d time.Duration) {
	if d < k.cfg.Renew {
		time.AfterFunc(d+time.Millisecond, k.startRound)
	}
}

// round renews the owned partitions, and acquires or hands over partitions according to the members. Each step is bounded by the
// renewal interval, so that trust expires in time even if Redis hangs.
func (k *Keeper) round(ctx context.Context) {
	if time.Since(k.renewed) > k.cfg.Renew/2 { // otherwise the round was started early
		k.renewed = time.Now()
		k.renewAll()
	}
	// Stop does not cancel the heartbeat: if it took effect after the member has left, the member would be assigned partitions for the TTL.
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
	// If the members cannot be read, the assignment stays, and this member still acquires its partitions if it has lost them: they may be on
	// another master than the members.
	members := k.members // written by this goroutine only
	switch {
	case err == nil:
		living = k.withoutDead(ctx, living)
		members = Eligible(living)
		k.startRoundIn(k.nextDeath(living))
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

// renewAll sends all renewals as one pipeline, and handles their replies as they arrive.
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

// trustWindow returns how long a renewal is trusted: nine tenths of the TTL.
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
		if t.trust.Load() < now && !t.expired {
			t.expired = true
			lost++
			t.end(fmt.Errorf("partition %d: not renewed for %v: %w", t.Part, k.trustWindow(), ErrLost))
		}
	}
}

// runTenure tries to acquire a partition and, if it succeeds, runs the actor for the tenure.
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
	// Stop does not cancel the acquisition: if it took effect without a reply, the others would have to wait for the TTL.
	acquiring, stopAcquiring := context.WithTimeout(context.WithoutCancel(loop), k.cfg.TTL/2)
	defer stopAcquiring()
	a := acquisition{part: p, of: k.cfg.Partitions, token: token, member: k.cfg.Member, ttl: k.cfg.TTL, silent: k.suspectAfter()}
	t, owner, err := k.scripts.tryAcquire(acquiring, a)
	if t == nil && err == nil && k.dead(owner.member) {
		a.dead = owner.member
		t, owner, err = k.scripts.tryAcquire(acquiring, a)
	}
	if resized, ok := errors.AsType[*ResizedError](err); ok {
		k.leave(resized)
		forget()
		return
	}
	if err != nil {
		redisx.LogFailure(k.cfg.Logger, "partition not acquired, retrying", err, "partition", p)
		_ = k.scripts.releaseToken(acquiring, &Tenure{Part: p, Token: token}, false) // the script may have taken effect
	}
	if t == nil || err != nil {
		forget()
		if err == nil {
			k.startRoundIn(owner.remaining)
		}
		if k.nudges.Load() != nudges { // the partition may have been released since; the round that the notice started has skipped it as busy
			k.startRound()
		}
		return
	}
	ctx, end := context.WithCancelCause(context.WithoutCancel(loop))
	defer end(nil)
	t.end, t.decline = end, func() { k.decline(p) }
	t.trust.Store(int64(start + k.trustWindow()))
	k.mu.Lock()
	if loop.Err() != nil { // Stop has begun, and may not have ended this tenure
		end(ErrHandover)
	}
	k.tenures[p] = t
	delete(k.busy, p)
	k.mu.Unlock()
	k.cfg.Logger.Debug("partition gained", "partition", p, "epoch", t.Epoch, "applied", t.Applied.Seq, "clean", t.Clean)

	err = k.cfg.Run(ctx, t)
	k.endTenure(ctx, t, err)
	if err != nil && time.Since(k.began)-start < k.cfg.Renew { // the cause probably persists
		outage.Sleep(loop, k.cfg.Renew)
	}
	forget()
	k.startRound()
}

// endTenure releases the partition after its actor has returned: as clean if the actor finished a hand-over.
func (k *Keeper) endTenure(ctx context.Context, t *Tenure, err error) {
	cause := context.Cause(ctx)
	k.mu.Lock()
	k.busy[t.Part] = true
	delete(k.tenures, t.Part)
	expired := t.expired
	k.mu.Unlock()
	clean := err == nil && errors.Is(cause, ErrHandover)
	switch {
	case clean:
	case expired, errors.Is(cause, ErrCutOff): // already logged, once for all partitions
	case errors.Is(cause, ErrHandover): // the next owner repairs what could not be finished
		k.cfg.Logger.Info("partition handed over unfinished", "partition", t.Part, "cause", err)
	default:
		redisx.LogFailure(k.cfg.Logger, "partition lost", cmp.Or(err, cause), "partition", t.Part)
	}
	if k.releaseToken(t, clean) {
		k.cfg.Released(t.Part)
	}
}

// releaseToken releases the ownership of a tenure, and reports whether that succeeded.
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
