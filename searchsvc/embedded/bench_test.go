package embedded_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/searchsvc"
	"waypost/searchsvc/embedded"
)

var articles = flag.Int("articles", 50_000, "how many articles the benchmark indexes")

// benchPart is how many documents an import has, as the indexer makes them.
const benchPart = 200

// BenchmarkEmbedded indexes generated Chinese and English articles, 600 characters
// on average, all of one tenant, and searches them through the service, highlights
// included.
func BenchmarkEmbedded(b *testing.B) {
	dir := b.TempDir()
	x, err := embedded.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	ctx := context.Background()
	if err := x.Create(ctx, "bench"); err != nil {
		b.Fatal(err)
	}
	g := newGenerator(1)
	size, busy := 0, time.Duration(0)
	for number := 1; number <= *articles; {
		var docs []searchsvc.Document
		for ; len(docs) < benchPart && number <= *articles; number++ {
			docs = append(docs, g.article(number))
			size += len(docs[len(docs)-1].Content)
		}
		start := time.Now()
		if _, err := x.Import(ctx, "bench", docs); err != nil {
			b.Fatal(err)
		}
		busy += time.Since(start)
	}
	peak := status(b, "VmHWM:")
	b.Run("import", func(b *testing.B) { // it is done, once, whatever -benchtime asks for
		b.ReportMetric(float64(*articles)/busy.Seconds(), "docs/s")
		b.ReportMetric(float64(size)/float64(*articles), "content-B/doc")
		b.ReportMetric(peak/1024, "peak-rss-MB")
		b.ReportMetric(folderSize(b, dir)/(1<<20), "disk-MB")
		b.ReportMetric(0, "ns/op")
	})
	if err := x.SetLive(ctx, "bench"); err != nil {
		b.Fatal(err)
	}
	service := searchsvc.New(x, everybody{})
	for _, kind := range g.keywords() {
		for _, clients := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/clients=%d", kind.name, clients), func(b *testing.B) {
				benchSearch(b, service, kind.keywords, clients)
			})
		}
	}
}

type everybody struct{}

func (everybody) TenantOrg(context.Context, string) (string, error) { return "acme", nil }

func benchSearch(b *testing.B, service *searchsvc.Service, keywords []string, clients int) {
	token := waypost.SearchToken{
		Scope: waypost.Scope{Org: "acme", Stage: waypost.StageRelease}, TenantIDs: []string{"t1"},
		From: []waypost.Origin{waypost.FromFrontend}, MaxAccessLevel: waypost.MaxAccessLevel,
	}
	took := make([]time.Duration, b.N)
	var next, hits atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range clients {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(b.N) {
					return
				}
				raw := "tenant_id=t1&from=frontend&keywords=" + url.QueryEscape(keywords[int(i)%len(keywords)])
				start := time.Now()
				result, err := service.Search(context.Background(), token, raw)
				if err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(start)
				hits.Add(int64(result.Total))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(hits.Load())/float64(b.N), "hits")
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapInuse)/(1<<20), "heap-MB")
	b.ReportMetric(status(b, "VmRSS:")/1024, "rss-MB")
}

// generator makes articles of words that are as frequent as in a real language:
// the second half as often as the first, the third a third as often.
type generator struct {
	random           *rand.Rand
	chinese, english []string
	zipfChinese      *rand.Zipf
	zipfEnglish      *rand.Zipf
	samples          []string
}

func newGenerator(seed uint64) *generator {
	g := &generator{random: rand.New(rand.NewPCG(seed, seed))}
	characters := rand.NewZipf(g.random, 1.25, 20, 3499) // the commonest thousand are 85 % of a text
	for range 20_000 {
		var word strings.Builder
		for range 1 + (g.random.IntN(10)+3)/5 { // mostly two characters
			word.WriteRune('一' + rune(characters.Uint64()*5)) // spread over the block
		}
		g.chinese = append(g.chinese, word.String())
	}
	for range 20_000 {
		var word strings.Builder
		for range 1 + g.random.IntN(4) {
			word.WriteByte("bcdfghklmnprstvw"[g.random.IntN(16)])
			word.WriteByte("aeiou"[g.random.IntN(5)])
		}
		g.english = append(g.english, word.String())
	}
	g.zipfChinese = rand.NewZipf(g.random, 1.05, 5, uint64(len(g.chinese)-1))
	g.zipfEnglish = rand.NewZipf(g.random, 1.05, 5, uint64(len(g.english)-1))
	return g
}

// text is a text of about n characters.
func (g *generator) text(n int, english float64) string {
	var b strings.Builder
	for sentence := 1; n > 0; sentence++ {
		if g.random.Float64() < english {
			word := g.english[g.zipfEnglish.Uint64()]
			b.WriteString(" " + word + " ")
			n -= len(word) + 2
		} else {
			word := g.chinese[g.zipfChinese.Uint64()]
			b.WriteString(word)
			n -= len(word) / 3
		}
		if sentence%9 == 0 && n > 0 {
			b.WriteString("，")
		}
	}
	return b.String()
}

func (g *generator) article(number int) searchsvc.Document {
	english := []float64{0, 0.05, 0.1, 0.1, 1}[number%5]
	d := searchsvc.Document{Key: strconv.Itoa(number), Stage: waypost.StageRelease, Article: waypost.Article{
		ID: "a" + strconv.Itoa(number), TenantID: "t1", Name: g.text(8+g.random.IntN(12), english), Identifier: "a",
		Content: g.text(200+g.random.IntN(800), english), AccessLevel: g.random.IntN(4), Published: g.random.IntN(20) > 0,
		PublishedAt: time.UnixMilli(1_700_000_000_000 + g.random.Int64N(30_000_000_000)).UTC(),
		Channels:    []waypost.Channel{{ID: "root", Name: "Home"}, {ID: "news", Slug: "news", Name: "News"}},
	}}
	if number%50 == 0 {
		g.samples = append(g.samples, d.Name, d.Content)
	}
	return d
}

type keywordsOf struct {
	name     string
	keywords []string
}

// keywords are what people might look for in the articles: words as frequent as
// they are in the text, and pieces of it.
func (g *generator) keywords() []keywordsOf {
	const count = 500
	kinds := []keywordsOf{{name: "mixed"}}
	add := func(name string, next func() string) {
		kind := keywordsOf{name: name}
		for range count {
			kind.keywords = append(kind.keywords, next())
		}
		kinds = append(kinds, kind)
		kinds[0].keywords = append(kinds[0].keywords, kind.keywords...)
	}
	piece := func(n int) string {
		for {
			runes := []rune(g.samples[g.random.IntN(len(g.samples))])
			if len(runes) < n {
				continue
			}
			at := g.random.IntN(len(runes) - n + 1)
			if piece := runes[at : at+n]; !slices.ContainsFunc(piece, func(r rune) bool { return !searchsvc.InRun(r) }) {
				return string(piece)
			}
		}
	}
	add("one-character", func() string { return piece(1) })
	add("chinese-word", func() string { return g.chinese[g.zipfChinese.Uint64()] })
	add("chinese-phrase", func() string { return piece(3 + g.random.IntN(5)) })
	add("two-chinese-words", func() string { return piece(2) + " " + piece(2) })
	add("english-word", func() string { return g.english[g.zipfEnglish.Uint64()] })
	add("english-words", func() string { return g.english[g.zipfEnglish.Uint64()] + " " + g.english[g.zipfEnglish.Uint64()] })
	add("beginning", func() string {
		word := g.english[g.zipfEnglish.Uint64()]
		return word[:min(len(word), 1+g.random.IntN(5))]
	})
	g.random.Shuffle(len(kinds[0].keywords), func(i, j int) {
		k := kinds[0].keywords
		k[i], k[j] = k[j], k[i]
	})
	return kinds
}

// status reads a line of what Linux says of this process, 0 elsewhere.
func status(b *testing.B, name string) float64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kB, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kB
		}
	}
	return 0
}

func folderSize(b *testing.B, dir string) float64 {
	var size int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return nil // scorch may have removed it meanwhile
	})
	if err != nil && !os.IsNotExist(err) {
		b.Fatal(err)
	}
	return float64(size)
}
