package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"

	"waypost"
)

func text(s string) *string { return &s }

// csvOf exports leads.
func csvOf(t testing.TB, custom []string, leads ...waypost.Lead) []byte {
	t.Helper()
	var b bytes.Buffer
	c := csvWriter{w: bufio.NewWriter(&b)}
	err := c.header(custom)
	for _, l := range leads {
		if err == nil {
			err = c.lead(l)
		}
	}
	if err == nil {
		err = c.w.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// rowsOf splits the body of an import.
func rowsOf(body, media string, mode waypost.ImportMode) (rows []waypost.ImportRow, err error) {
	for row, err := range importRows(strings.NewReader(body), importForm{media, charsetUTF8, mode, "", "CN"}) {
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// A name in the header is repeated in every row: a short file must not become a
// long import.
func TestCSVCustomNamesAreBounded(t *testing.T) {
	t.Parallel()
	_, err := rowsOf("name,customFields."+strings.Repeat("a", maxCustomName+1)+"\nb,c\n", "text/csv", waypost.ImportCreate)
	if waypost.CodeOf(err) != waypost.CodeBadRequest || !strings.Contains(err.Error(), "column 2") {
		t.Errorf("got %v", err)
	}
}

// What is exported is imported as exactly the same fields.
func FuzzCSVRoundTrip(f *testing.F) {
	for _, s := range []string{
		"", "x", "'", "''", "=1+1", "'=1", "+8613800000000", "-5", "'-5", "@a", "\t", "\rx", "a\r\nb", "a\nb\r", ` "q" `, `"`, ",", ";", "5", "'5", "1e999", "-0", "0.1",
		"true", "'true", "false", "TRUE", "'True", "1.50", "5.0", "1E5", "1e-7", "110101199003077758", "18014398509481984", "1990/12/31", " 7", "7 ", "' 7", "\u00a07", "\u200b7", "　x", "'t x ", "+86138", "null", "＝1", "'＋", "－", "＠", "\uFEFF", "张三", "007", "1_0", "{}", "  ",
	} {
		f.Add(s, s, int64(-5), 0.1, uint64(0x1234567890abcdef))
		f.Add("a", s, int64(7), -1e-9, ^uint64(0))
	}
	f.Fuzz(func(t *testing.T, a, b string, n int64, x float64, bits uint64) {
		clean := strings.NewReplacer("\x00", "")
		a, b = clean.Replace(strings.ToValidUTF8(a, "")), clean.Replace(strings.ToValidUTF8(b, ""))
		if math.IsNaN(x) || math.Abs(x) > 1<<53 {
			x = 1.5
		}
		pick := func() uint64 {
			bits = bits>>3 | bits<<61
			return bits & 7
		}
		value := func() *string {
			return []*string{nil, text(""), &a, &b, text("'" + a), text("=" + b), text(a + "\r\n" + b), text(strconv.FormatFloat(x, 'g', -1, 64))}[pick()]
		}
		integer := func() *int64 { return []*int64{nil, &n, nil, &n, nil, &n, nil, &n}[pick()] }
		in := waypost.Lead{LeadsID: max(n, 1), LeadFields: waypost.LeadFields{
			LeadsGroup: integer(), Region: integer(), Gender: integer(), Name: a + b,
			Address: value(), Remark: value(), Birthday: []*string{nil, text("1990-12-31"), text("--02-29")}[bits%3], Email: value(), Wechat: value(), QQ: value(), Telephone: value(),
			Company: value(), CompanyPhone: value(), CompanyEmail: value(), CompanyWebsite: value(), ExternalID: value(), OpenID: value(),
		}, CreatedAt: time.UnixMilli(1e12), UpdatedAt: time.UnixMilli(1e12)}
		for _, phone := range []string{a, b, "+1" + a} {
			if len(waypost.SplitPhones(phone, "CN")) == 1 {
				in.MobilePhone = append(in.MobilePhone, phone)
			}
		}
		custom := map[string]any{}
		for i, v := range []any{a, b, "'" + a, x, float64(n >> 12), n > 0, strconv.FormatInt(n, 10), fmt.Sprint(n > 0), "'" + strconv.FormatInt(n, 10)} {
			if pick() < 5 {
				custom[fmt.Sprintf("%s%d", strings.ToValidUTF8(b[:min(len(b), maxCustomName/2)], ""), i)] = v
			}
		}
		_, _ = in.Validate("CN", time.UnixMilli(1e12)) // makes it what is stored
		names := []string{customColumn + "in no lead", consentColumn + "in no lead"}
		for name := range custom {
			names = append(names, customColumn+name)
		}
		if in.Test = n%2 == 0; n%3 == 0 {
			in.Consents = map[string]any{"sms": true, "微信": false}
			names = append(names, consentColumn+"sms", consentColumn+"微信")
		}
		if len(custom) > 0 {
			in.CustomFields = custom
		}
		body := csvOf(t, names, in, waypost.Lead{LeadFields: waypost.LeadFields{Name: "next"}}, in)

		// Others see the same cells.
		others := csv.NewReader(bytes.NewReader(body))
		others.FieldsPerRecord = len(csvFields) + len(names)
		if all, err := others.ReadAll(); err != nil || len(all) != 4 {
			t.Fatalf("%d rows, %v: %q", len(all), err, body)
		}
		rows, err := rowsOf(string(body), "text/csv", waypost.ImportUpsert)
		if err != nil || len(rows) != 3 {
			t.Fatalf("%d rows, %v: %q", len(rows), err, body)
		}
		for _, i := range []int{0, 2} {
			if rows[i].Fault != nil {
				t.Fatalf("%v: %q", rows[i].Fault, body)
			}
			got, problems := waypost.ReadLeadRow(rows[i].Data)
			// An empty name is no lead's, but it is read all the same.
			if len(problems) > 0 {
				t.Fatalf("%v: %s", problems, rows[i].Data)
			}
			if got.LeadsID == nil || *got.LeadsID != in.LeadsID || !reflect.DeepEqual(got.Fields, in.LeadFields) {
				t.Fatalf("got  %#v\nwant %#v\nrow %s\nCSV %q", got.Fields, in.LeadFields, rows[i].Data, body)
			}
		}
	})
}

// The cells as they stand in the file.
func TestCSVCells(t *testing.T) {
	t.Parallel()
	header := "leadsId,leadsGroup,region,address,remark,name,mobilePhone,gender,birthday,email,wechat,qq,telephone,company,companyPhone,companyEmail,companyWebsite,externalId,openId,test,createdAt,updatedAt,customFields.b,customFields.n,customFields.s,consents.sms"
	at := time.Date(2026, 1, 31, 12, 0, 0, 5e6, time.UTC)
	region := int64(-3)
	bare := waypost.Lead{LeadsID: 1, LeadFields: waypost.LeadFields{Name: "a"}, CreatedAt: at, UpdatedAt: at}
	full := waypost.Lead{LeadsID: 2, CreatedAt: at, UpdatedAt: at, LeadFields: waypost.LeadFields{
		Name: `a "b", c`, Region: &region, Address: text(""), Remark: text("two\r\nlines"), MobilePhone: []string{"+8613800000000", "139 0000 0000"},
		QQ: text("12345"), Company: text("=cmd|' /C calc'!A0"), ExternalID: text("'"), CustomFields: map[string]any{"b": true, "n": -1.5, "s": "007"},
		Consents: map[string]any{"sms": false}, Test: true,
	}}
	typed := waypost.Lead{LeadsID: 3, CreatedAt: at, UpdatedAt: at, LeadFields: waypost.LeadFields{
		Name: "＝x", CustomFields: map[string]any{"b": "true", "n": "'-1", "s": "12"},
	}}
	want := strings.Join([]string{
		header,
		"1,,,,,a,,,,,,,,,,,,,,false,2026-01-31T12:00:00.005Z,2026-01-31T12:00:00.005Z,,,,",
		"2,,'-3,',\"two\r\nlines\",\"a \"\"b\"\", c\",'+8613800000000;139 0000 0000,,,,,12345,,'=cmd|' /C calc'!A0,,,,'',,true,2026-01-31T12:00:00.005Z,2026-01-31T12:00:00.005Z,true,'-1.5,007,false",
		"3,,,,,'＝x,,,,,,,,,,,,,,false,2026-01-31T12:00:00.005Z,2026-01-31T12:00:00.005Z,'true,'''-1,'12,",
		"",
	}, "\n")
	if got := string(csvOf(t, []string{"customFields.b", "customFields.n", "customFields.s", "consents.sms"}, bare, full, typed)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The columns are all fields that a lead is answered with.
func TestCSVColumns(t *testing.T) {
	t.Parallel()
	answered := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[leadAnswer]()) {
		if name := f.Tag.Get("json"); name != "" && name != "customFields" && name != "consents" {
			answered[name] = true
		}
	}
	for _, f := range csvFields {
		if !answered[f.name] {
			t.Errorf("no lead has %s, or it stands twice", f.name)
		}
		delete(answered, f.name)
	}
	if len(answered) > 0 {
		t.Errorf("no columns for %v", answered)
	}
}

func TestImportRows(t *testing.T) {
	t.Parallel()
	const (
		csvMedia = "text/csv"
		lines    = "application/x-ndjson"
		list     = "application/json"
	)
	long := strings.Repeat("x", maxRow)
	for _, tc := range []struct {
		name, media, body string
		mode              waypost.ImportMode
		rows              string // "LINE DATA" or "LINE CODE TARGET", separated by blanks and |
		broken            string // "CODE TARGET"s of the error
	}{
		{name: "CSV", media: csvMedia, body: "name,qq\na,1\nb,2\n", rows: `2 {"name":"a","qq":"1"}|3 {"name":"b","qq":"2"}`},
		{name: "CSV, no end", media: csvMedia, body: "name,qq\r\na,1\r", rows: `2 {"name":"a","qq":"1"}`},
		{name: "CSV, BOM, CRLF, blank lines", media: csvMedia, body: "\uFEFFname,qq\r\n\r\na,1\r\n\n\r\nb,\r\n", rows: `3 {"name":"a","qq":"1"}|6 {"name":"b"}`},
		{name: "CSV, quotes", media: csvMedia, body: "\"name\",remark\r\n\"a\",\"x, \"\"y\"\"\r\n\nz\"\r\n\"b\"\"\",\"\"\r\n", rows: `2 {"name":"a","remark":"x, \"y\"\r\n\nz"}|5 {"name":"b\""}`},
		{name: "CSV, types", media: csvMedia, body: "name,leadsGroup,region,gender,leadsId,birthday\na,1, 2 ,x,1.5,2000\nb,'-1,99999999999999999999,+1,007,\n", rows: `2 {"name":"a","leadsGroup":1,"region":2,"gender":"x","leadsId":1.5,"birthday":"2000"}|3 {"name":"b","leadsGroup":-1,"region":99999999999999999999,"gender":1,"leadsId":7}`},
		{name: "CSV, phones", media: csvMedia, body: "name,mobilePhone\na,1;2\nb,;3;\nc,'+86 1;'4\nd,;\n", rows: `2 {"name":"a","mobilePhone":["1","2"]}|3 {"name":"b","mobilePhone":["3"]}|4 {"name":"c","mobilePhone":["+86 1","'4"]}|5 {"name":"d","mobilePhone":[]}`},
		{name: "CSV, custom fields", media: csvMedia, body: "customFields.a,name,\"customFields.b \"\"c\"\"\"\n1,x,true\n'1,y,'true\n,z,nulL\n'-1,,''-1\n", rows: `2 {"name":"x","customFields":{"a":1,"b \"c\"":true}}|3 {"name":"y","customFields":{"a":"1","b \"c\"":"true"}}|4 {"name":"z","customFields":{"b \"c\"":"nulL"}}|5 {"customFields":{"a":-1,"b \"c\"":"-1"}}`},
		{name: "CSV, an empty row", media: csvMedia, body: "name,qq\n,\n"},
		{name: "CSV, empty rows and columns", media: csvMedia, body: ",,,\nname,qq,,\n,,,\n\na,1,,\n \n\"\",\" \", ,\u00a0\nb,,,,,,\n\u200b\n", rows: `5 {"name":"a","qq":"1"}|8 {"name":"b"}`},
		{name: "CSV, blank cells", media: csvMedia, body: "name,leadsGroup,email,remark\na, ,\u00a0,' \n", rows: `2 {"name":"a","remark":" "}`},
		{name: "CSV, a column without a name", media: csvMedia, body: "name,,qq\na,,1\nb,x,2\n", rows: `2 {"name":"a","qq":"1"}`, broken: "InvalidFormat "},
		{name: "CSV, what Excel writes", media: csvMedia, body: "name,test,consents.sms,customFields.v\na,TRUE,False,tRuE\nb, FALSE ,　TRUE,false\nc,WAHR,1,'TRUE\n",
			rows: `2 {"name":"a","test":true,"customFields":{"v":true},"consents":{"sms":false}}|3 {"name":"b","test":false,"customFields":{"v":false},"consents":{"sms":true}}|` +
				`4 {"name":"c","test":"WAHR","customFields":{"v":"TRUE"},"consents":{"sms":1}}`},
		{name: "CSV, texts that look like numbers", media: csvMedia,
			body: "name,customFields.a,customFields.b,customFields.c\na,110101199003077758,11010119900307775X,007\nb,1E5,1e5,1.50\nc,5.0,1.10e2,1.234567890123456789\nd,+86138,9007199254740992,9007199254740994\ne,-0.5,1e-7,1.0E-7\n",
			rows: `2 {"name":"a","customFields":{"a":"110101199003077758","b":"11010119900307775X","c":"007"}}|3 {"name":"b","customFields":{"a":"1E5","b":"1e5","c":"1.50"}}|` +
				`4 {"name":"c","customFields":{"a":"5.0","b":"1.10e2","c":"1.234567890123456789"}}|5 {"name":"d","customFields":{"a":"+86138","b":9007199254740992,"c":"9007199254740994"}}|` +
				`6 {"name":"e","customFields":{"a":-0.5,"b":1e-7,"c":"1.0E-7"}}`},
		{name: "CSV, blanks around values", media: csvMedia, body: "name,region,remark,customFields.a,customFields.b\n a , 7\u200b,\" two\nlines\u00a0\", 7,　x　\n't Hooft ,\u00a07,' x ,7\u00a0,' 7\n",
			rows: `2 {"name":"a","region":7,"remark":"two\nlines","customFields":{"a":7,"b":"x"}}|4 {"name":"'t Hooft","region":7,"remark":" x ","customFields":{"a":7,"b":" 7"}}`},
		{name: "CSV, blanks around names", media: csvMedia, body: " name ,\u00a0qq\u200b, customFields.a \nx,1,2\n", rows: `2 {"name":"x","qq":"1","customFields":{"a ":2}}`},
		{name: "CSV, numbers in a cell", media: csvMedia, body: "name,mobilePhone\na,13800138000；13900139000、13700137000，\nb,\"13800138000, 13900139000\"\nc,13800138000/13900139000\nd,021/62345678\ne,13800138000/12\nf,\"13800138000\n13900139000\"\n",
			rows: `2 {"name":"a","mobilePhone":["13800138000","13900139000","13700137000"]}|3 {"name":"b","mobilePhone":["13800138000"," 13900139000"]}|4 {"name":"c","mobilePhone":["13800138000","13900139000"]}|` +
				`5 {"name":"d","mobilePhone":["021/62345678"]}|6 {"name":"e","mobilePhone":["13800138000","12"]}|7 {"name":"f","mobilePhone":["13800138000","13900139000"]}`},
		{name: "CSV, wrong number of cells", media: csvMedia, body: "name,qq\na\nb,1,2\n\"c\nc\",1\n", rows: `2 InvalidFormat |3 InvalidFormat |4 {"name":"c\nc","qq":"1"}`},
		{name: "CSV, too many cells", media: csvMedia, body: "name,qq\na,1,,2\nb,1,,\n", rows: `2 InvalidFormat |3 {"name":"b","qq":"1"}`},
		{name: "CSV, a quote in a cell", media: csvMedia, body: "name,qq\na\"b,\"1\n2\"\nc,3\n", rows: `2 InvalidFormat |4 {"name":"c","qq":"3"}`},
		{name: "CSV, no UTF-8", media: csvMedia, body: "name,qq\na\xff,1\nb,2\n", broken: "InvalidFormat "},
		{name: "CSV, NUL", media: csvMedia, body: "name\na\x00b\n", rows: `2 {"name":"a\u0000b"}`},
		{name: "CSV, long cells", media: csvMedia, body: "name,qq\n" + long + ",1\n\"" + long + "\n\",1\n" + long[:maxRow/2] + ",2\n", rows: `2 TooLong |3 TooLong |5 {"name":"` + long[:maxRow/2] + `","qq":"2"}`},
		{name: "CSV, many custom fields", media: csvMedia, body: "name" + manyColumns(101) + "\na" + strings.Repeat(",1", 101) + "\nb" + strings.Repeat(",", 101) + "\n", rows: `2 OutOfRange customFields|3 {"name":"b"}`},
		{name: "CSV, nothing", media: csvMedia, broken: "NullValue "},
		{name: "CSV, header only", media: csvMedia, body: "name"},
		{name: "CSV, header of no UTF-8", media: csvMedia, body: "name,\xff\n", broken: "InvalidFormat "},
		{name: "CSV, wrong columns", media: csvMedia, body: "nam,name,qq,qq,customFields., name,Name,end\na", broken: "UnknownField nam; Duplicate qq; UnknownField customFields.; Duplicate name; UnknownField Name; UnknownField end"},
		{name: "CSV, nameless", media: csvMedia, body: "leadsId,\n", broken: "NullValue name"},
		{name: "CSV, nobody to update", media: csvMedia, mode: waypost.ImportUpdate, body: "name,qq\n", broken: "NullValue leadsId"},
		{name: "CSV, update", media: csvMedia, mode: waypost.ImportUpdate, body: "externalId,qq\ne,\n", rows: `2 {"externalId":"e"}`},
		{name: "CSV, nobody to upsert", media: csvMedia, mode: waypost.ImportUpsert, body: "qq\n1\n", broken: "NullValue name"},
		{name: "CSV, upsert", media: csvMedia, mode: waypost.ImportUpsert, body: "leadsId\n1\n", rows: `2 {"leadsId":1}`},
		{name: "CSV, text after a quoted cell", media: csvMedia, body: "name,qq\na,1\n\"b\"c,2\n", rows: `2 {"name":"a","qq":"1"}`, broken: "InvalidFormat "},
		{name: "CSV, no closing quote", media: csvMedia, body: "name,qq\na,\"1\nb,2\n", broken: "InvalidFormat "},
		{name: "CSV, no closing quote in much", media: csvMedia, body: "name,qq\na,\"1" + strings.Repeat("\n"+long, 5), broken: "InvalidFormat "},
		{name: "CSV, an endless line", media: csvMedia, body: "name,qq\n" + strings.Repeat(long, 5), broken: "InvalidFormat "},

		{name: "lines", media: lines, body: "\uFEFF{\"name\":\"a\"}\r\n\n \t\n  {\"name\":\"b\"} ", rows: `1 {"name":"a"}|4 {"name":"b"}`},
		{name: "lines with businessParam", media: lines, body: "{\"businessParam\":{\"name\":\"a\"}}\n{\"businessParam\":{},\"leadsId\":1}\n{\"businessParam\":{},\"businessParam\":{}}\n{\"businessParam\":[]}\n{\"remark\":\"businessParam\"}\n{ \"businessParam\" : {\"name\" : \"b\"} }", rows: `1 {"name":"a"}|2 {"businessParam":{},"leadsId":1}|3 {"businessParam":{},"businessParam":{}}|4 {"businessParam":[]}|5 {"remark":"businessParam"}|6 {"name" : "b"}`},
		{name: "broken lines", media: lines, body: "{\"name\":\n\n[]\nnull\n{} {}\n{}", rows: `1 InvalidFormat |3 []|4 null|5 InvalidFormat |6 {}`},
		{name: "lines of no UTF-8", media: lines, body: "{}\n{\"name\":\"\xff\"}\n{}", broken: "InvalidFormat "},
		{name: "an export's end", media: lines, body: "{\"name\":\"a\"}\n{\"end\":true,\"count\":1}\n{\"end\":false,\"count\":1}\n{\"end\":true}\n{\"name\":\"x\",\"end\":true,\"count\":1}\n", rows: `1 {"name":"a"}|3 {"end":false,"count":1}|4 {"end":true}|5 {"name":"x","end":true,"count":1}`},
		{name: "long lines", media: lines, body: "{\"name\":\"" + long + "\"}\n{}\n" + strings.Repeat(long, 5) + "\n{\"a\":1}\n" + long + "x", rows: `1 TooLong |2 {}|3 TooLong |4 {"a":1}|5 TooLong `},
		{name: "no lines", media: lines},

		{name: "list", media: list, body: "\uFEFF{\"leads\": [ {\"name\":\"a\"},\n\n{\"businessParam\":{\"name\":\"b\"}},5,null ] }\n", rows: `1 {"name":"a"}|2 {"name":"b"}|3 5|4 null`},
		{name: "empty list", media: list, body: `{"leads":[]}`},
		{name: "list of no UTF-8", media: list, body: "{\"leads\":[{\"name\":\"\xff\"},{}]}", broken: "InvalidFormat "},
		{name: "list of long leads", media: list, body: `{"leads":[{"name":"` + long + `"},{}]}`, rows: `1 TooLong |2 {}`},
		{name: "list of a lead that is too long", media: list, body: `{"leads":[{},{"name":"` + strings.Repeat(long, 9) + `"},{}]}`, rows: `1 {}`, broken: "TooLong "},
		{name: "no list", media: list, body: `{}`, broken: "NullValue leads"},
		{name: "another member", media: list, body: `{"lead":[],"leads":[]}`, broken: "UnknownField lead"},
		{name: "another member behind", media: list, body: `{"leads":[{}],"more":1}`, rows: `1 {}`, broken: "UnknownField more"},
		{name: "two lists", media: list, body: `{"leads":[],"leads":[]}`, broken: "Duplicate leads"},
		{name: "null list", media: list, body: `{"leads":null}`, broken: "InvalidType leads"},
		{name: "object for a list", media: list, body: `{"leads":{}}`, broken: "InvalidType leads"},
		{name: "list alone", media: list, body: `[{}]`, broken: "InvalidType "},
		{name: "no object", media: list, body: `null`, broken: "InvalidType "},
		{name: "nothing", media: list, body: ``, broken: "InvalidFormat "},
		{name: "cut off", media: list, body: `{"leads":[{},{"a"`, rows: `1 {}`, broken: "InvalidFormat "},
		{name: "cut off after a lead", media: list, body: `{"leads":[{}`, rows: `1 {}`, broken: "InvalidFormat "},
		{name: "cut off after the list", media: list, body: `{"leads":[{}]`, rows: `1 {}`, broken: "InvalidFormat "},
		{name: "something follows", media: list, body: `{"leads":[{}]}]`, rows: `1 {}`, broken: "InvalidFormat "},
		{name: "another document follows", media: list, body: `{"leads":[{}]} {}`, rows: `1 {}`, broken: "InvalidFormat "},
		{name: "broken lead", media: list, body: `{"leads":[{},{a},{}]}`, rows: `1 {}`, broken: "InvalidFormat "},
		{name: "deep", media: list, body: `{"leads":[{},` + strings.Repeat("[", 20_000), rows: `1 {}`, broken: "InvalidFormat "},
		{name: "missing comma", media: list, body: `{"leads":[{}{}]}`, rows: `1 {}`, broken: "InvalidFormat "},
		{name: "long name", media: list, body: `{"` + strings.Repeat(long, 9) + `":1}`, broken: "TooLong "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.mode == "" {
				tc.mode = waypost.ImportCreate
			}
			rows, err := rowsOf(tc.body, tc.media, tc.mode)
			var got []string
			for _, row := range rows {
				what := string(row.Data)
				if row.Fault != nil {
					what = faultOf(t, row.Fault)
				}
				got = append(got, fmt.Sprintf("%d %s", row.Line, what))
			}
			if all := strings.Join(got, "|"); all != tc.rows {
				t.Errorf("rows\ngot  %s\nwant %s", short(all), short(tc.rows))
			}
			broken := ""
			if err != nil {
				broken = faultOf(t, err)
			}
			if broken != tc.broken {
				t.Errorf("broken: %q, want %q (%v)", broken, tc.broken, err)
			}
		})
	}
}

// What is wrong with a file as a whole is told, with what to do, before any row is
// stored.
func TestImportFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	const gbk = "name,externalId\r\n\xd5\xc5\xc8\xfd,g1\r\n\xc3\xab\xce\xb0,g2\r\n\xc2\xbd\xd6\xbe\xc7\xbf,g3\r\n"
	for _, tc := range []struct {
		name, charset, body string
		says                string
	}{
		{"GBK", "", gbk, "line 2: the file is not UTF-8, but looks like GBK: send it with charset=gb18030"},
		{"GBK behind much", "", "name\n" + strings.Repeat("x\n", 100_000) + "\xd5\xc5\n", "line 100002: the file is not UTF-8, but looks like GBK"},
		{"Windows-1252", "", "name\nM\xfcller\n", `line 2: the file is not UTF-8: save it as UTF-8 ("CSV UTF-8" in a spreadsheet), or name its charset in the Content-Type (CLI: --encoding): gb18030, big5, shift_jis, windows-1252 …`},
		{"a character cut off", "", "name\n\xe5\xbc", "line 2: the file is not UTF-8"},
		{"a surrogate", "", "name\n\xed\xa0\x80\n", "line 2: the file is not UTF-8"},
		{"not GB18030", "gb18030", "name\n\xd5\xc5\n\xff\n", "line 3: the file is not in the charset"},
		{"not Shift_JIS", "shift_jis", "name\n\x83\n", "line 2: the file is not in the charset"},
		{"half a character of UTF-16", "utf-16", "\xff\xfen\x00a\x00m\x00e\x00\n\x00\x20", "line 2: the file is not in the charset"},
		{"a lone surrogate of UTF-16", "utf-16le", "n\x00a\x00m\x00e\x00\n\x00\x00\xd8\n\x00", "line 2: the file is not in the charset"},
		{"UTF-16", "", "\xff\xfen\x00a\x00", "the file is UTF-16: send it with charset=utf-16"},
		{"UTF-16, big end first", "gbk", "\xfe\xff\x00n\x00a", "the file is UTF-16"},
		{"UTF-16 without a mark", "", "n\x00a\x00m\x00e\x00", "the file is UTF-16"},
		{"UTF-16 without its mark", "utf-16", "n\x00a\x00m\x00e\x00", "the file has no byte order mark: name its encoding as utf-16le or utf-16be"},
		{"UTF-32", "", "\xff\xfe\x00\x00n\x00\x00\x00", "the file is UTF-32"},
		{"xlsx", "", "PK\x03\x04\x14\x00\x06\x00\x08\x00\x00\x00!\x00[Content_Types].xml", "the file is an Excel workbook (xlsx): save it as UTF-8"},
		{"xlsx with a charset", "gbk", "PK\x03\x04........xl/workbook.xml", "the file is an Excel workbook (xlsx)"},
		{"ods", "", "PK\x03\x04......mimetypeapplication/vnd.oasis.opendocument.spreadsheetPK", "the file is a LibreOffice spreadsheet (ods)"},
		{"zip", "", "PK\x03\x04......leads.csvname\n", "the file is a ZIP archive: unpack it"},
		{"xls", "", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00", "the file is an Excel workbook (xls)"},
		{"gzip", "", "\x1f\x8b\x08\x00", "the file is compressed with gzip: unpack it"},
		{"PDF", "", "%PDF-1.7\n", "the file is a PDF"},
		{"UTF-8 as GBK", "gbk", "externalId,name\nm1,张三\n", "the file is UTF-8, not gbk as the Content-Type says: send it with charset=utf-8"},
		{"UTF-8 as Windows-1252", "windows-1252", "externalId,name\nm1,René\n", "the file is UTF-8, not windows-1252"},
		{"UTF-8 as Big5, which it does not fit", "big5", "externalId,name\nm1,张三\n", "the file is UTF-8, not big5"},
		{"HTML", "", "\uFEFF\r\n<table><tr><td>name", "the file is HTML or XML"},

		{"semicolons", "", "name;mobilePhone;email\nAda;;\n", "line 1: the cells are separated by ;:"},
		{"semicolons and quotes", "", "\uFEFF\"Name\";\"email\"\r\n", "line 1: the cells are separated by ;:"},
		{"semicolons, unknown names", "", "姓名;电话\n", "line 1: the cells are separated by ;:"},
		{"tabs", "", "name\tqq\nAda\t1\n", "line 1: the cells are separated by a tab:"},
		{"tabs of one known name", "", "name\tphone number\n", "line 1: the cells are separated by a tab:"},
		{"bars", "", "name|qq\n", "line 1: the cells are separated by |:"},
		{"full-width commas", "", "name，qq\n", "line 1: the cells are separated by ，:"},
		{"sep", "", "sep=;\r\nname;qq\r\n", "line 1: sep= is for a spreadsheet alone: take the line out"},
		{"sep of commas, quoted", "", "\"SEP=,\"\nname,qq\n", "line 1: sep= is for a spreadsheet alone"},
		{"CR", "", "name,qq\rAda,1\rBob,2\r", "line 1: the lines end with CR alone: save the file with LF or CRLF"},
		{"CR, with LF in a cell", "", "name,remark\rAda,\"a\nb\"\r", "line 1: the lines end with CR alone"},
		{"JSON", "", `{"leads":[]}`, "line 1: the file is JSON, not CSV"},
		{"a column without a name", "", "name,,qq\n\na,,\nb,x,\n", "line 4: column 2 has content, and no name in the header row"},
		{"a name in another case", "", "Name,qq\n", "2 fields are faulty; see detail (Name: column 1: the name of the field is written name;"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.charset == "" {
				tc.charset = charsetUTF8
			}
			var err error
			for _, rowErr := range importRows(strings.NewReader(tc.body), importForm{"text/csv", tc.charset, waypost.ImportCreate, "", "CN"}) {
				err = rowErr
			}
			if err == nil || !strings.HasPrefix(err.Error(), tc.says) {
				t.Errorf("got  %v\nwant %s…", err, tc.says)
			}
			if err != nil {
				faultOf(t, err)
			}
		})
	}
}

func TestImportCharsets(t *testing.T) {
	t.Parallel()
	const want = `2 {"name":"张三"}|3 {"name":"毛伟","qq":"1"}`
	for _, tc := range []struct{ charset, body string }{
		{"utf-8", "\uFEFFname,qq\r\n张三,\r\n毛伟,1"},
		{"GB18030", "name,qq\r\n\xd5\xc5\xc8\xfd,\r\n\xc3\xab\xce\xb0,1"},
		{"gbk", "name,qq\r\n\xd5\xc5\xc8\xfd,\r\n\xc3\xab\xce\xb0,1"},
		{"gb2312", "name,qq\r\n\xd5\xc5\xc8\xfd,\r\n\xc3\xab\xce\xb0,1"},
		{"cp936", "name,qq\r\n\xd5\xc5\xc8\xfd,\r\n\xc3\xab\xce\xb0,1"},
		{"gbk", "\uFEFFname,qq\r\n张三,\r\n毛伟,1"}, // a mark says more
		{"gbk", "name,qq\r\n\xd5\xc5\xc8\xfd,\r\n\xc3\xab\xce\xb0,1"},
		{"utf-16", "\xff\xfe" + utf16LE("name,qq\r\n张三,\r\n毛伟,1")},
		{"UTF-16", "\xfe\xff" + utf16BE("name,qq\r\n张三,\r\n毛伟,1")},
		{"utf-16le", utf16LE("name,qq\r\n张三,\r\n毛伟,1")},
		{"utf-16le", utf16LE("\uFEFFname,qq\r\n张三,\r\n毛伟,1")},
		{"utf-16be", utf16BE("name,qq\r\n张三,\r\n毛伟,1")},
	} {
		var got []string
		for row, err := range importRows(strings.NewReader(tc.body), importForm{"text/csv", tc.charset, waypost.ImportCreate, "", "CN"}) {
			if err != nil {
				t.Errorf("%s: %v", tc.charset, err)
			}
			got = append(got, fmt.Sprintf("%d %s", row.Line, row.Data))
		}
		if all := strings.Join(got, "|"); all != want {
			t.Errorf("%s: %q, want %q", tc.charset, all, want)
		}
	}
	for charset, body := range map[string]string{
		"utf-16le": utf16LE("\uFEFF{\"name\":\"张三\"}"), "utf-16be": utf16BE("\uFEFF{\"name\":\"张三\"}"), "gb18030": "\x84\x31\x95\x33{\"name\":\"\xd5\xc5\xc8\xfd\"}",
		"cp932": "{\"name\":\"\x92\xa3\x8e\x4f\"}", "cp950": "{\"name\":\"\xb1\x69\xa4\x54\"}", "cp949": "{\"name\":\"\xed\xe5\xdf\xb2\"}",
	} {
		want := map[string]string{"cp932": "張三", "cp950": "張三", "cp949": "張三"}[charset]
		if want == "" {
			want = "张三"
		}
		for row, err := range importRows(strings.NewReader(body), importForm{contentTypeNDJSON, charset, waypost.ImportCreate, "", "CN"}) {
			if err != nil || string(row.Data) != `{"name":"`+want+`"}` {
				t.Errorf("%s: %s %v %v", charset, row.Data, row.Fault, err)
			}
		}
	}
	for charset, known := range map[string]bool{
		"big5": true, "Shift_JIS": true, "euc-kr": true, "windows-1252": true, "iso-8859-1": true, "latin1": true, "utf8": true,
		"utf-7": false, "": false, "ebcdic": false, "replacement": false, "utf-32": false,
	} {
		if _, got := decoderOf(charset); got != known {
			t.Errorf("%s: %t, want %t", charset, got, known)
		}
	}
}

func utf16LE(s string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		b = append(b, byte(unit), byte(unit>>8))
	}
	return string(b)
}

func utf16BE(s string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		b = append(b, byte(unit>>8), byte(unit))
	}
	return string(b)
}

// Characters that a read cuts in two are whole.
func TestWholeTextInPieces(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("名😀é\n", 30_000)
	for _, read := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
		in, err := textReader(read(strings.NewReader("\uFEFF"+text)), charsetUTF8)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(in); err != nil || string(got) != text {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// An error of the file is ours, not the client's.
func TestImportRowsOfABrokenFile(t *testing.T) {
	t.Parallel()
	for media, begin := range map[string]string{"text/csv": "name\na\n", "application/x-ndjson": "{}\n", "application/json": `{"leads":[{},`} {
		n := 0
		for _, err := range importRows(io.MultiReader(strings.NewReader(begin), brokenFile{}), importForm{media, charsetUTF8, waypost.ImportCreate, "", "CN"}) {
			if n++; n == 2 && waypost.CodeOf(err) != waypost.CodeInternalError {
				t.Errorf("%s: %v", media, err)
			}
		}
		if n != 2 {
			t.Errorf("%s: %d rows and errors, want 1 and 1", media, n)
		}
	}
}

type brokenFile struct{}

func (brokenFile) Read([]byte) (int, error) { return 0, fmt.Errorf("the disk is broken") }

func manyColumns(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",customFields.%d", i)
	}
	return b.String()
}

// faultOf lists the codes and targets of a BadRequest.
func faultOf(t *testing.T, err error) string {
	t.Helper()
	if waypost.CodeOf(err) != waypost.CodeBadRequest {
		t.Fatalf("%v is no BadRequest", err)
	}
	var known *waypost.Error
	if !errors.As(err, &known) {
		t.Fatalf("%T", err)
	}
	var all []string
	for _, d := range known.Details {
		if d.Message == "" || len(d.Message) > 200 {
			t.Errorf("message %q", d.Message)
		}
		all = append(all, fmt.Sprintf("%s %s", d.Code, d.Target))
	}
	return strings.Join(all, "; ")
}

func short(s string) string { return s[:min(len(s), 2000)] }

// Whatever is sent, an import is read to an end, and its rows stand where they do.
func FuzzImportRows(f *testing.F) {
	for _, s := range []string{"name,qq\na,1\n", "\uFEFFname\r\n\"a\r\nb\"\"\"\r\n", `{"leads":[{"name":"a"},5]}`, "{\"name\":\"a\"}\n\n{\"end\":true,\"count\":1}", "\"", "name\n\"", `{"leads":[`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, media := range []string{"text/csv", "application/x-ndjson", "application/json"} {
			last := 0
			rows, err := rowsOf(body, media, waypost.ImportUpsert)
			if err != nil && waypost.CodeOf(err) != waypost.CodeBadRequest {
				t.Fatalf("%s: %v", media, err)
			}
			for _, row := range rows {
				if row.Line <= last || row.Line > strings.Count(body, "\n")+strings.Count(body, ",")+1 || (row.Fault == nil) == (row.Data == nil) {
					t.Fatalf("%s: %+v after line %d", media, row, last)
				}
				last = row.Line
				if row.Fault == nil {
					waypost.ReadLeadRow(row.Data) // must not panic
				}
			}
		}
	})
}

// BenchmarkExport writes leads as an export does, without reading them.
func BenchmarkExport(b *testing.B) {
	group := int64(3)
	lead := waypost.Lead{LeadsID: 1234567, CreatedAt: time.UnixMilli(1e12), UpdatedAt: time.UnixMilli(1e12), LeadFields: waypost.LeadFields{
		LeadsGroup: &group, Name: "张三", MobilePhone: []string{"+8613800000000"}, Email: text("a@example.com"), Company: text("Example, Inc."),
		Address: text("Nanjing Rd 1"), ExternalID: text("crm-1234567"), CustomFields: map[string]any{"score": 1.5, "source": "fair"},
	}}
	for format, export := range map[string]func(exporter[waypost.Lead]) streamFunc{
		"ndjson": func(e exporter[waypost.Lead]) streamFunc { return exportNDJSON(e, answerLead) },
		"csv": func(e exporter[waypost.Lead]) streamFunc {
			return exportCSV(e, false, (*csvWriter).header, (*csvWriter).lead)
		},
	} {
		b.Run(format, func(b *testing.B) {
			b.ReportAllocs()
			stream := export(func(_ context.Context, begin func([]string) error, each func(waypost.Lead) error) error {
				if begin != nil {
					if err := begin([]string{"score", "source"}); err != nil {
						return err
					}
				}
				for b.Loop() {
					if err := each(lead); err != nil {
						return err
					}
				}
				return nil
			})
			if err := stream(b.Context(), bufio.NewWriterSize(io.Discard, streamBuffer), func(string) {}); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "leads/s")
		})
	}
}

// BenchmarkImportRows splits imports into rows.
func BenchmarkImportRows(b *testing.B) {
	for _, bc := range []struct{ name, media, head, row, tail string }{
		{"csv", "text/csv", "name,mobilePhone,email,leadsGroup,company,customFields.score\n", "张三,'+8613800000000,a@example.com,3,\"Example, Inc.\",1.5\n", ""},
		{"csv of short rows", "text/csv", "name\n", "x\n", ""},
		{"csv of broken rows", "text/csv", "name,qq\n", "x\n", ""},
		{"ndjson", "application/x-ndjson", "", `{"name":"张三","mobilePhone":["+8613800000000"],"email":"a@example.com","leadsGroup":3,"customFields":{"score":1.5}}` + "\n", ""},
		{"ndjson of broken rows", "application/x-ndjson", "", "x\n", ""},
		{"json", "application/json", `{"leads":[{}`, `,{"name":"张三","mobilePhone":["+8613800000000"],"email":"a@example.com","leadsGroup":3,"customFields":{"score":1.5}}`, "]}"},
	} {
		b.Run(bc.name, func(b *testing.B) {
			const rows = 10_000
			body := bc.head + strings.Repeat(bc.row, rows) + bc.tail
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range importRows(strings.NewReader(body), importForm{bc.media, charsetUTF8, waypost.ImportCreate, "", "CN"}) {
					if n++; err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// An import of articles ends at the first line that is one too many. Blank ones do not
// count.
func TestArticleRowsEnd(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]waypost.ErrorCode{"1\n\n{}\n \n": "", "1\n\n{}\n{}": waypost.CodePayloadTooLarge} {
		rows, end := 0, error(nil)
		for _, err := range articleRows(strings.NewReader(body), charsetUTF8, 2) {
			if end = err; err == nil {
				rows++
			}
		}
		if rows != 2 || waypost.CodeOf(end) != want {
			t.Errorf("%q: %d rows, %v", body, rows, end)
		}
	}
}
