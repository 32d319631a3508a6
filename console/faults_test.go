package console

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"waypost"
)

func hasHan(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

// What is wrong with drafts and with resources is told in Chinese, whatever field it is of.
func TestFaultsInChinese(t *testing.T) {
	t.Parallel()
	var met []waypost.Detail
	files, err := filepath.Glob("../journey/testdata/*.want")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d lists of faults: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(\w+) ([^ ]*): (.*)$`).FindAllStringSubmatch(string(text), -1) {
			met = append(met, waypost.Detail{Code: waypost.DetailCode(m[1]), Target: m[2], Message: m[3]})
		}
	}
	if len(met) < 50 {
		t.Errorf("%d faults of drafts are known", len(met))
	}
	for _, faulty := range []interface{ Validate() error }{
		&waypost.Subscription{JourneyID: "x", On: []waypost.Happening{"a", "a"}}, &waypost.Webhook{}, &waypost.User{},
		&waypost.Webhook{TimeoutMs: 1, MaxConcurrency: -1, RateLimit: &waypost.RateLimit{}, Retry: waypost.Retry{Jitter: 2, On: []waypost.RetryOn{"200", "x"}}},
	} {
		var asked *waypost.Error
		if !errors.As(faulty.Validate(), &asked) {
			t.Fatalf("%+v has no faults", faulty)
		}
		met = append(met, asked.Details...)
	}
	for _, d := range met {
		if said := faultsIn["zh"].detail(d); !hasHan(said.Message) || said.Target != d.Target || strings.ContainsAny(strings.ReplaceAll(said.Message, d.Message, ""), "{}") {
			t.Errorf("%s %s: %q is told as %q", d.Code, d.Target, d.Message, said.Message)
		}
	}
}

func TestFaultTexts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code            waypost.DetailCode
		target, message string
		want            string
	}{
		{waypost.DetailOutOfRange, "timeoutMs", "must be 10 to 120000", "必须为 10 到 120000"},
		{waypost.DetailOutOfRange, "timeoutMs", "must be less", "超出允许范围：must be less"}, // it names no bounds
		{waypost.DetailOutOfRange, "retry.schedule[3]", "must be 1s to 72h0m0s", "必须为 1s 到 72h0m0s"},
		{waypost.DetailInvalidType, "leadsId", "must be an integer", "必须是整数"},
		{waypost.DetailInvalidType, "audience.filter.region", "must be an integer, not a string", "必须是整数"},
		{waypost.DetailTooLong, "customFields.tier", "must be at most 4096 characters", "最多 4096 个字符"},
		{waypost.DetailInvalidFormat, "nodes[2].cases[0].when", "line 1: {no}", "条件有误：line 1: {no}"},
		{waypost.DetailOutOfRange, "nodes[2].arms[0].next", `there is no node "x"`, "没有这个节点"},
		{"", "mobilePhone[0]", "lead 12 has it already", "线索 12 已使用此号码"},
		{"NewCode", "name", "is new", "is new"},
	} {
		if got := faultsIn["zh"].detail(waypost.Detail{Code: tt.code, Target: tt.target, Message: tt.message}).Message; got != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.code, tt.target, got, tt.want)
		}
	}
	for _, tt := range []struct {
		code                  waypost.ErrorCode
		method, path, message string
		want                  string
	}{
		{waypost.CodeConflict, "DELETE", "/v1/journeys/jrn_06h1", "the journey was published; archive it instead", "旅程已发布过，不能删除；请改为归档"},
		{waypost.CodeConflict, "POST", "/v1/launches/lch_06h1/pause", "the launch has ended: canceled", "已经结束，不能再改变"},
		{waypost.CodeConflict, "POST", "/v1/subscriptions?x=1", "the stage has 100 subscriptions, which is the most", "此环境已有 100 个订阅，已达上限"},
		{waypost.CodeConflict, "DELETE", "/v1/segments/seg_06h1", "journey jrn_1 uses the segment", "仍在使用中，不能删除：journey jrn_1 uses the segment"},
		{waypost.CodeConflict, "POST", "/v1/unknown", "no", "现在无法操作：no"},
		{"NewCode", "POST", "/v1/journeys", "is new", "is new"},
	} {
		err := inLanguage("zh", tt.method, tt.path, &waypost.Error{Code: tt.code, Message: tt.message})
		var said *waypost.Error
		if !errors.As(err, &said) || said.Message != tt.want || said.Code != tt.code || err.Error() != tt.message {
			t.Errorf("%s %s: %q, and %q in logs, want %q", tt.method, tt.path, said.Message, err, tt.want)
		}
	}
	fault := &waypost.Error{Code: waypost.CodeConflict, Message: "no"}
	if got := inLanguage("en", "POST", "/v1/launches", fault); got != error(fault) {
		t.Errorf("in English: %v", got)
	}
}

// A form tells what the gateway says of its fields in the language of the person, and the log
// in English.
func TestFormInChinese(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, _ := s.as(waypost.RoleAdmin)
	v.setCookie("language", "zh")
	s.answering(func(r *http.Request) (int, string) {
		if r.Method != http.MethodPost {
			return 0, ""
		}
		return http.StatusBadRequest, `{"code":"BadRequest","message":"name: is missing","target":"subscription","detail":[{"code":"NullValue","target":"on","message":"must name at least one"}]}`
	})
	got := v.post("/subscriptions", url.Values{"name": {"crm"}})
	if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "请至少选择一项") || strings.Contains(got.Body, "must name") {
		t.Errorf("HTTP %d, %s", got.Status, got.Body)
	}
}

// What is wrong with a condition is told in Chinese, but for what is to be written.
func TestConditionsInChinese(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		`line 1, column 14: “ is a quote of word processors: write "…" or '…'`:                     `line 1, column 14: “ 是文字处理软件的引号，请写 "…" 或 '…'`,
		`line 1, column 13: ＞ is a full-width sign: write >`:                                       `line 1, column 13: ＞ 是全角符号，请写 >`,
		`line 1, column 13: equality is written ==`:                                                `line 1, column 13: 相等写作 ==`,
		`line 1, column 11: write && in the place of and`:                                          `line 1, column 11: 请把 and 写成 &&`,
		`line 1, column 14: the text ends at the ' within it: write "O'Brien"`:                     `line 1, column 14: 文字在其中的 ' 处就结束了，请写 "O'Brien"`,
		`line 1, column 13: lead.gender is a number: write lead.gender == 1`:                       `line 1, column 13: lead.gender 是数字，请写 lead.gender == 1`,
		`lead.mobilePhone is a list of texts: write "+8613800138000" in lead.mobilePhone`:          `lead.mobilePhone 是文字的列表，请写 "+8613800138000" in lead.mobilePhone`,
		`lead.birthday is a text such as 1990-12-31: write date(lead.birthday) < today`:            `lead.birthday 是 1990-12-31 这样的文字，请写 date(lead.birthday) < today`,
		`line 1, column 5: lead has no member "gendre"; line 1, column 20: equality is written ==`: `line 1, column 5: lead 没有 "gendre"; line 1, column 20: 相等写作 ==`,
	} {
		if got := faultsIn["zh"].detail(waypost.Detail{Code: waypost.DetailInvalidFormat, Target: "nodes[0].when", Message: said}); got.Message != "条件有误："+want {
			t.Errorf("%s:\n%s, want\n%s", said, got.Message, want)
		}
	}
}

// What conditions ask of events that are not kept is told in Chinese, whatever it is.
func TestEventAgesInChinese(t *testing.T) {
	t.Parallel()
	ages := waypost.EventAges{Events: 90 * waypost.EventDay, Counts: 3 * 365 * waypost.EventDay}
	const day = waypost.EventDay
	for _, tt := range []struct {
		need waypost.EventNeed
		want string
	}{
		{waypost.EventNeed{Name: "buy", Use: waypost.EventAll},
			`没有时间窗口，读不到事件的属性：事件保留 90 天（WAYPOST_RETENTION_EVENTS），之后只保留次数；请写时间窗口，例如 events("buy", duration("2160h"))，或改用 .count()`},
		{waypost.EventNeed{Name: "buy", Use: waypost.EventAll, Window: 100 * day},
			`读不到近 100 天内事件的属性：事件保留 90 天（WAYPOST_RETENTION_EVENTS），之后只保留次数；请写时间窗口，例如 events("buy", duration("2160h"))，或改用 .count()`},
		{waypost.EventNeed{Name: "buy", Use: waypost.EventTimes, Window: 100*day + 1},
			`时间窗口超过事件保留的 90 天（WAYPOST_RETENTION_EVENTS）时，必须是整天，即 24h 的倍数，因为更早的事件按天计数；请写 duration("2424h")`},
		{waypost.EventNeed{Name: "buy", Use: waypost.EventTimes, Window: 2000 * day},
			`事件的次数保留 1095 天（WAYPOST_RETENTION_EVENT_COUNTS；事件本身保留 90 天，WAYPOST_RETENTION_EVENTS）；时间窗口请写到 duration("26280h") 为止，或不写`},
	} {
		for target, before := range map[string]string{"when": "超出允许范围：", "nodes[0]": "节点有误："} {
			got := faultsIn["zh"].detail(waypost.Detail{Code: waypost.DetailOutOfRange, Target: target, Message: ages.Fault(tt.need)})
			if got.Message != before+tt.want {
				t.Errorf("%s:\n%s, want\n%s", target, got.Message, before+tt.want)
			}
		}
	}
}
