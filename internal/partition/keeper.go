package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nuid"
	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/outage"
	"github.com/pawlrun/pawl/internal/redisx"
)

// Config is what a Keeper needs.
type Config struct {
	Redis      redis.UniversalClient
	Space      redisx.Space
	Partitions int
	Member     string        // unique among the living orchestrators
	TTL        time.Duration // how long a partition is owned without renewal; default 5 s
	Renew      time.Duration // how often it is renewed; default 1 s
	Logger     *slog.Logger
	Outage     *outage.Reporter // may be nil

	// Inputs reports for how long nothing has been heard of the inputs, and for how long they had been heard without a
	// gap of CutOff/2 before that. It must not block. nil: this member is never cut off.
	Inputs func() (silent, steady time.Duration)
	CutOff time.Duration // a member that has heard nothing for so long is cut off; default 5 s

	// Run is the partition's actor. It is called on a goroutine of its own, once for
	// each tenure, and ends when ctx does: with the cause ErrHandover after finishing
	// what it began (nil error: everything it decided has been published), with any other
	// cause at once. An error it returns by itself ends the tenure; the next one begins anew.
	Run func(ctx context.Context, t *Tenure) error
	// Released tells the other members that a partition is free, or (-1) that a member came or went.
	Released func(part int)
}

// Keeper acquires, renews and hands over the partitions of one process. Start it, and Stop it: Stop joins everything.
type Keeper struct {
	cfg     Config
	scripts scripts
	run     *redisx.Runner // of its own: renewals do not queue behind turns
	began   time.Time
	nudge   chan struct{}
	stop    context.CancelFunc
	done    chan struct{}
	actors  sync.WaitGroup

	renewed time.Time // the loop's: when the last renewals were sent
	cutOff  bool      // likewise: this member is, and others are reading

	mu      sync.Mutex
	tenures map[int]*Tenure
	busy    map[int]bool // handing over, or being acquired
	members []string     // that partitions are assigned to
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
		tenures: make(map[int]*Tenure), busy: make(map[int]bool),
	}
}

// Start joins the members and begins to acquire. It waits, until ctx ends, while Redis is unavailable.
func (k *Keeper) Start(ctx context.Context) error {
	err := k.cfg.Outage.Await(ctx, outage.Redis, "join members", redisx.Unavailable, func(ctx context.Context) error {
		_, _, err := k.scripts.heartbeat(ctx, Member{k.cfg.Member, Unproven}, false, k.cfg.TTL)
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

// Nudge makes the keeper look at members and partitions now. It never blocks.
func (k *Keeper) Nudge() {
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

// Members lists the members that partitions are assigned to, as last read: the living ones without those that are cut
// off from their inputs.
func (k *Keeper) Members() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.members)
}

// Stop leaves the members, hands every partition over, and joins. When ctx ends first, what is
// left is dropped without being handed over: others acquire it when its TTL is over.
func (k *Keeper) Stop(ctx context.Context) error {
	if k.stop == nil {
		return nil
	}
	k.stop()
	<-k.done
	_, _, err := k.scripts.heartbeat(ctx, Member{k.cfg.Member, Unproven}, true, k.cfg.TTL)
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
	tick := time.NewTicker(k.cfg.Renew)
	defer tick.Stop()
	for ctx.Err() == nil { // a nudge may be taken before the end is
		began := time.Now()
		k.round(ctx)
		select {
		case <-ctx.Done():
		case <-k.nudge:
			k.pause(ctx, nudgeGap-time.Since(began))
		case <-tick.C:
		}
	}
}

// nudgeGap is the shortest time between two rounds: notices may be forged, and each round costs Redis a script a partition.
const nudgeGap = 10 * time.Millisecond

// rest waits, until ctx ends.
func (k *Keeper) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// nudgeIn looks again when the time of a member, or of an owner, is over, if that is before the next round: a dead
// owner's partitions are free then, and nothing else reports it.
func (k *Keeper) nudgeIn(d time.Duration) {
	if d < k.cfg.Renew {
		time.AfterFunc(d+time.Millisecond, k.Nudge)
	}
}

// round renews what is owned, and takes or hands over what the members say. Each part of it is
// bounded by the renewal interval, so that a Redis that hangs does not keep trust from running out.
func (k *Keeper) round(ctx context.Context) {
	if time.Since(k.renewed) > k.cfg.Renew/2 { // else this round is an early one
		k.renewed = time.Now()
		k.renewAll()
	}
	// Not cut short by Stop: a heartbeat that overtakes the farewell keeps the member's partitions from the others for the TTL.
	beat, stop := context.WithTimeout(context.WithoutCancel(ctx), k.cfg.Renew)
	own := k.Reach()
	living, gone, err := k.scripts.heartbeat(beat, Member{k.cfg.Member, own}, false, k.cfg.TTL)
	stop()
	k.expire()
	members := Eligible(living)
	if err != nil {
		if ctx.Err() == nil {
			redisx.LogFailure(k.cfg.Logger, "members not read, keeping partitions", err)
		}
		// What was mine still is, and is taken again if it was lost: its master may be another than the members'.
		members = k.Members()
	} else {
		k.nudgeIn(gone)
		k.watchReach(living)
	}
	if ctx.Err() != nil {
		return
	}
	cutOff := own == CutOff && !slices.Contains(members, k.cfg.Member)
	k.mu.Lock()
	k.members = members
	k.logReach(cutOff, len(k.tenures))
	k.mu.Unlock()
	for p := range k.cfg.Partitions {
		mine := Rendezvous(members, p) == k.cfg.Member
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

// renewAll sends all renewals at once; they travel as one pipeline, and their answers are taken as they come.
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

// trusted is how long a renewal is believed: a tenth of the TTL less than Redis believes it.
func (k *Keeper) trustWindow() time.Duration { return k.cfg.TTL - k.cfg.TTL/10 }

// expire ends the tenures that could not be renewed in time.
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

// tenant tries to acquire the partition and, if it does, runs the actor for the tenure.
func (k *Keeper) runTenure(loop context.Context, p int) {
	defer k.actors.Done()
	forget := func() {
		k.mu.Lock()
		delete(k.busy, p)
		delete(k.tenures, p)
		k.mu.Unlock()
	}
	start := time.Since(k.began)
	token := nuid.Next()
	// Not cut short by Stop: an acquisition that is carried out and not heard of costs the others the TTL.
	ask, stopAsk := context.WithTimeout(context.WithoutCancel(loop), k.cfg.TTL/2)
	defer stopAsk()
	t, free, err := k.scripts.tryAcquire(ask, p, token, k.cfg.Member, k.cfg.TTL)
	if err != nil {
		redisx.LogFailure(k.cfg.Logger, "partition not acquired, retrying", err, "partition", p)
		_ = k.scripts.releaseToken(ask, &Tenure{Part: p, Token: token}, false) // it may have been acquired all the same
	}
	if t == nil || err != nil {
		forget()
		if err == nil {
			k.nudgeIn(free)
		}
		return
	}
	ctx, end := context.WithCancelCause(context.WithoutCancel(loop))
	defer end(nil)
	t.end = end
	t.trust.Store(int64(start + k.trustWindow()))
	k.mu.Lock()
	if loop.Err() != nil { // Stop has begun; it does not know this tenure
		end(ErrHandover)
	}
	k.tenures[p] = t
	delete(k.busy, p)
	k.mu.Unlock()
	k.cfg.Logger.Debug("partition gained", "partition", p, "epoch", t.Epoch, "applied", t.Applied.Seq, "clean", t.Clean)

	err = k.cfg.Run(ctx, t)
	k.endTenure(ctx, t, err)
	if err != nil && time.Since(k.began)-start < k.cfg.Renew { // whatever kept it from going on is probably still there
		pause := time.NewTimer(k.cfg.Renew)
		defer pause.Stop()
		select {
		case <-loop.Done():
		case <-pause.C:
		}
	}
	forget()
	k.Nudge()
}

// release ends a tenure. A partition that was handed over in good order is said to be clean.
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
	case expired, errors.Is(cause, ErrCutOff): // one line for all partitions has been logged
	case errors.Is(cause, ErrHandover): // the next owner repairs what could not be finished
		k.cfg.Logger.Info("partition handed over unfinished", "partition", t.Part, "cause", err)
	default:
		redisx.LogFailure(k.cfg.Logger, "partition lost", cmp.Or(err, cause), "partition", t.Part)
	}
	if k.releaseToken(t, clean) {
		k.cfg.Released(t.Part)
	}
}

// giveBack releases the token, and reports whether that was done.
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
