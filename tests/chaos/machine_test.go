//go:build chaos

package chaos

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl/internal/freeport"
	"github.com/pawlrun/pawl/internal/poll"
	"github.com/pawlrun/pawl/tests/stack"
)

// certificate creates a self-signed certificate for 127.0.0.1, and returns the directory of cert.pem and key.pem.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pawl"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// watch makes the replica follow the master, starts three sentinels, and waits until they agree. A Redis node has no
// configuration file: it restarts as a master, and the sentinels make it a replica of the node that they have promoted.
func (s *servers) watch() {
	s.t.Helper()
	host, port, _ := strings.Cut(s.redis.Addr, ":")
	if err := s.replica.Client(s.t).Do(s.t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		s.t.Fatal(err)
	}
	for range 3 {
		addr, dir := net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.Take(s.t))), s.t.TempDir()
		_, own, _ := strings.Cut(addr, ":")
		conf := filepath.Join(dir, "sentinel.conf") // the sentinel rewrites it
		text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %[3]s %s %s 2\nsentinel down-after-milliseconds %[3]s 1000\n"+
			"sentinel failover-timeout %[3]s 3000\nsentinel parallel-syncs %[3]s 1\n", own, dir, namespace, host, port)
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
		p := stack.NewProcess(s.t, addr, "redis-server", []string{conf, "--sentinel"}, []string{"LD_PRELOAD="}) // its clock does not step
		p.Start()
		s.sentinels = append(s.sentinels, p)
	}
	for _, p := range s.sentinels {
		rdb := redis.NewSentinelClient(&redis.Options{Addr: p.Name(), DisableIdentity: true})
		poll.Until(s.t, time.Minute, "the sentinel has found the others and the replica", func() bool {
			m, err := rdb.Master(s.t.Context(), namespace).Result()
			return err == nil && m["num-other-sentinels"] == "2" && m["num-slaves"] == "1"
		})
		_ = rdb.Close()
	}
}

// awaitReplica waits until one node is the replica of the other and has its state, including on disk. Otherwise the next
// fault could promote a node with a state of half a minute ago, which an operator would not do.
func (s *servers) awaitReplica() {
	s.t.Helper()
	one, other := s.redis.Client(s.t), s.replica.Client(s.t)
	poll.Until(s.t, settleIdle, "a node is the replica of the other", func() bool { return replicates(one, other) || replicates(other, one) })
}

// replicates reports whether a node has the same state as its master.
func replicates(replica, master redis.UniversalClient) bool {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	of, err := replica.Info(ctx).Result()
	from, err2 := master.Info(ctx, "replication").Result()
	return err == nil && err2 == nil && strings.Contains(of, "master_link_status:up") && strings.Contains(of, "loading:0") &&
		strings.Contains(of, "aof_rewrite_in_progress:0") && strings.Contains(of, "aof_rewrite_scheduled:0") && strings.Contains(from, "connected_slaves:1")
}

// losePower kills both servers at the same time. Redis syncs its AOF once per second, so the end of the AOF is lost, from an
// offset within d before the kill. NATS syncs the messages that it acknowledges, but not the index of a stream, which is
// lost.
func (s *servers) losePower(d time.Duration) error {
	s.t.Helper()
	synced := map[string]int64{}
	logs, err := filepath.Glob(filepath.Join(s.redis.Dir, "appendonlydir", "*.incr.aof"))
	if err != nil {
		return err
	}
	for _, path := range logs {
		if info, err := os.Stat(path); err == nil {
			synced[path] = info.Size()
		}
	}
	wait(min(d, time.Second))
	s.nats.Signal(syscall.SIGKILL)
	s.redis.Kill()
	s.nats.Kill()
	for path, size := range synced {
		if info, err := os.Stat(path); err == nil && info.Size() > size { // otherwise Redis has rewritten it
			if err := os.Truncate(path, size+mathrand.Int64N(info.Size()-size)); err != nil {
				return err
			}
		}
	}
	indexes, err := filepath.Glob(filepath.Join(s.nats.Dir, "jetstream", "*", "streams", "*", "msgs", "index.db"))
	for _, path := range indexes {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	s.nats.Start()
	s.redis.Restart(s.t)
	return err
}

// restore copies the current files of Redis, waits, and makes Redis continue with the copy: everything written in between is
// lost, although it was synced. The copy may end within a command.
func (s *servers) restore(d time.Duration) error {
	s.t.Helper()
	live, copied := filepath.Join(s.redis.Dir, "appendonlydir"), filepath.Join(s.t.TempDir(), "snapshot")
	if err := os.CopyFS(copied, os.DirFS(live)); err != nil {
		return err
	}
	wait(d)
	s.redis.Kill()
	if err := errors.Join(os.RemoveAll(live), os.CopyFS(live, os.DirFS(copied)), os.RemoveAll(copied)); err != nil {
		return err
	}
	s.redis.Restart(s.t)
	return nil
}

// tmpfs is a file system whose size can be changed.
type tmpfs struct{ dir string }

// mount returns a file system, or nil if this process is not permitted to mount one.
func mount(t *testing.T) *tmpfs {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("pawl-chaos", dir, "tmpfs", 0, "size="+strconv.Itoa(tmpfsSize)); err != nil {
		t.Logf("disks are not filled: mount: %v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return &tmpfs{dir: dir}
}

// fill leaves a number of bytes free for a while. It returns the errors of both changes.
func (d *tmpfs) fill(free uint64, long time.Duration) error {
	err := d.resize(free)
	wait(long)
	return errors.Join(err, d.resize(tmpfsSize))
}

const tmpfsSize = 4 << 30 // uses only as much memory as its files

// resize leaves a number of bytes free.
func (d *tmpfs) resize(free uint64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &st); err != nil {
		return err
	}
	used := (st.Blocks - st.Bfree) * uint64(st.Bsize) //nolint:gosec // never negative
	return syscall.Mount("pawl-chaos", d.dir, "tmpfs", syscall.MS_REMOUNT, "size="+strconv.FormatUint(used+free, 10))
}
