package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/redis/go-redis/v9"

	"waypost"
	"waypost/gateway"
	"waypost/limits"
	"waypost/listen"
	"waypost/signature"
	"waypost/store"
	"waypost/store/storetest"
)

const (
	benchClients = 32
	benchRepeat  = 3
	benchTime    = 4 * time.Second
)

// BenchmarkGateway compares signed requests, with limits in Redis and the replay
// guard on, with the same handlers without anything around them, in turns. It needs
// WAYPOST_TEST_REDIS_URL for a real Redis, and measures PostgreSQL too if
// WAYPOST_TEST_POSTGRES_URL is set. The load comes from this process.
func BenchmarkGateway(b *testing.B) {
	redisURL := os.Getenv("WAYPOST_TEST_REDIS_URL")
	if redisURL == "" {
		b.Skip("WAYPOST_TEST_REDIS_URL is not set")
	}
	fmt.Printf("%-10s %-8s %-10s %-13s %9s %9s %9s\n", "database", "request", "gateway", "measure", "min", "median", "max")
	b.Run("sqlite", func(b *testing.B) { benchGateway(b, "sqlite", storetest.SQLite(b, time.Now), redisURL) })
	b.Run("postgres", func(b *testing.B) { benchGateway(b, "postgres", storetest.Postgres(b, time.Now), redisURL) })
}

func benchGateway(b *testing.B, database string, db *store.Store, redisURL string) {
	credential, err := db.CreateApplication(b.Context(), "", waypost.Application{
		Org: testOrg, Name: "bench", Grants: []waypost.Grant{"*"}, RatePerSecond: 100_000, RateBurst: 1_000_000,
	})
	if err != nil {
		b.Fatal(err)
	}
	scope := waypost.Scope{Org: testOrg, Stage: waypost.StageRelease}
	email, group := "ada@example.com", int64(7)
	lead, err := db.CreateLead(b.Context(), scope, waypost.LeadFields{Name: "Ada", Email: &email, LeadsGroup: &group, MobilePhone: []string{"13800138000"}}, []string{"+8613800138000"})
	if err != nil {
		b.Fatal(err)
	}
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		b.Fatal(err)
	}
	client := redis.NewClient(limits.ClientOptions(options))
	b.Cleanup(func() { _ = client.Close() })
	o := gateway.Options{
		Applications: db, Leads: db, Imports: db, Webhooks: db, Subscriptions: db, Suppressions: db, Segments: db, Journeys: db, Enrollments: db, Launches: db, Controls: db, Events: db, Deliveries: db, Audit: db,
		Nonces: limits.NewNonces(client, db, slog.New(slog.DiscardHandler)), Rates: rates{limits.NewLeases(limits.NewRates(client, slog.New(slog.DiscardHandler)))}, Keys: db, Waker: &wakes{},
		AddressRate: 100_000, PhoneRegion: "CN", Now: time.Now, Log: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	}
	full, bare := listenBench(b, gateway.New(o)), listenBench(b, gateway.NewBare(o, scope))
	var serial atomic.Int64
	get := func() (string, string, string) { return "GET", "/v1/leads/" + strconv.FormatInt(lead.LeadsID, 10), "" }
	create := func() (string, string, string) {
		n := serial.Add(1)
		return "POST", "/v1/leads", fmt.Sprintf(`{"businessParam":{"name":"Ada %d","leadsGroup":3,"externalId":"bench-%d","mobilePhone":["+86138%08d"]}}`, n, n, n)
	}
	for _, kind := range []struct {
		name string
		make func() (method, target, body string)
	}{{"get", get}, {"create", create}} {
		load(b, bare, keyOf(credential), kind.make, 0) // warms up
		load(b, full, keyOf(credential), kind.make, 0)
		var shares []float64
		rows := make([][]measured, 3)
		for range benchRepeat {
			off := load(b, bare, keyOf(credential), kind.make, 0)
			on := load(b, full, keyOf(credential), kind.make, 0)
			half := load(b, full, keyOf(credential), kind.make, on.rate/2)
			for i, m := range []measured{off, on, half} {
				rows[i] = append(rows[i], m)
			}
			shares = append(shares, on.rate/off.rate)
		}
		for i, name := range []string{"bare", "full", "full, half"} {
			for _, measure := range []struct {
				name string
				of   func(measured) float64
			}{
				{"req/s", func(m measured) float64 { return m.rate }}, {"p50 ms", func(m measured) float64 { return m.p50 }}, {"p99 ms", func(m measured) float64 { return m.p99 }},
			} {
				var values []float64
				for _, m := range rows[i] {
					values = append(values, measure.of(m))
				}
				printSpread(database, kind.name, name, measure.name, values)
			}
		}
		printSpread(database, kind.name, "full", "share of bare", shares)
		b.ReportMetric(shares[len(shares)/2], kind.name+"-share")
	}
}

// printSpread prints a row, and sorts the values.
func printSpread(database, request, gateway, measure string, values []float64) {
	slices.Sort(values)
	fmt.Printf("%-10s %-8s %-10s %-13s %9.2f %9.2f %9.2f\n", database, request, gateway, measure, values[0], values[len(values)/2], values[len(values)-1])
}

func listenBench(b *testing.B, app *fiber.App) string {
	var lc net.ListenConfig
	l, err := lc.Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = gateway.Serve(app, listen.New(l, listen.Options{})) }()
	b.Cleanup(func() { _ = app.ShutdownWithTimeout(time.Second) })
	return l.Addr().String()
}

type measured struct{ rate, p50, p99 float64 }

// load sends signed requests from several connections, as fast as they are answered
// or at a rate.
func load(b *testing.B, addr string, key signature.Key, next func() (method, target, body string), rate float64) measured {
	b.Helper()
	// They are made before, so that the load costs little while it is measured.
	prepared := make([][][]byte, benchClients)
	for i := range prepared {
		for range 4000 {
			method, target, body := next()
			r := signature.Request{Method: method, Path: target, Headers: []signature.Header{{Name: "Host", Value: addr}, {Name: "Content-Type", Value: "application/json"}}}
			var out strings.Builder
			fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n", method, target, addr)
			if method != "GET" {
				fmt.Fprintf(&out, "Content-Length: %d\r\n", len(body))
			}
			for _, h := range signature.Sign(r, key, []byte(body), time.Now(), signature.NewNonce()) {
				out.WriteString(h.Name + ": " + h.Value + "\r\n")
			}
			out.WriteString("\r\n" + body)
			prepared[i] = append(prepared[i], []byte(out.String()))
		}
	}
	took := make([][]time.Duration, benchClients)
	began := time.Now()
	var all sync.WaitGroup
	for i := range benchClients {
		all.Go(func() {
			var dial net.Dialer
			conn, err := dial.DialContext(b.Context(), "tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			in := bufio.NewReader(conn)
			for n, request := range prepared[i] {
				due := time.Now()
				if rate > 0 {
					due = began.Add(time.Duration(float64(n*benchClients+i) / rate * float64(time.Second)))
					time.Sleep(time.Until(due))
				}
				if due.Sub(began) > benchTime {
					break
				}
				if err := exchange(conn, in, request); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(due))
			}
		})
	}
	all.Wait()
	elapsed := time.Since(began)
	flat := slices.Concat(took...)
	slices.Sort(flat)
	if len(flat) == 0 {
		b.Fatal("no answers")
	}
	ms := func(q float64) float64 { return flat[int(q*float64(len(flat)-1))].Seconds() * 1000 }
	return measured{float64(len(flat)) / elapsed.Seconds(), ms(0.5), ms(0.99)}
}

// exchange sends a request and reads its answer, which must be a success.
func exchange(conn net.Conn, in *bufio.Reader, request []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	status, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
		if name, value, _ := strings.Cut(string(line), ":"); strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return err
			}
		}
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(in, body); err != nil {
		return err
	}
	if !strings.HasPrefix(status, "HTTP/1.1 2") {
		return fmt.Errorf("%s%s", status, body)
	}
	return nil
}
