module score_16_lanes(q__0, q__1, q__2, q__3, q__4, q__5, q__6, q__7, q__8, q__9, q__10, q__11, q__12, q__13, q__14, q__15, k__0, k__1, k__2, k__3, k__4
, k__5, k__6, k__7, k__8, k__9, k__10, k__11, k__12, k__13, k__14, k__15, step, zero, limit, clk, rst, decided, replay, total, valid);
  reg \$auto$verilog_backend.cc:2505:dump_module$1  = 0;
  input signed [15:0] q__0;
  wire signed [15:0] q__0;
  input signed [15:0] q__1;
  wire signed [15:0] q__1;
  input signed [15:0] q__2;
  wire signed [15:0] q__2;
  input signed [15:0] q__3;
  wire signed [15:0] q__3;
  input signed [15:0] q__4;
  wire signed [15:0] q__4;
  input signed [15:0] q__5;
  wire signed [15:0] q__5;
  input signed [15:0] q__6;
  wire signed [15:0] q__6;
  input signed [15:0] q__7;
  wire signed [15:0] q__7;
  input signed [15:0] q__8;
  wire signed [15:0] q__8;
  input signed [15:0] q__9;
  wire signed [15:0] q__9;
  input signed [15:0] q__10;
  wire signed [15:0] q__10;
  input signed [15:0] q__11;
  wire signed [15:0] q__11;
  input signed [15:0] q__12;
  wire signed [15:0] q__12;
  input signed [15:0] q__13;
  wire signed [15:0] q__13;
  input signed [15:0] q__14;
  wire signed [15:0] q__14;
  input signed [15:0] q__15;
  wire signed [15:0] q__15;
  input [7:0] k__0;
  wire [7:0] k__0;
  input [7:0] k__1;
  wire [7:0] k__1;
  input [7:0] k__2;
  wire [7:0] k__2;
  input [7:0] k__3;
  wire [7:0] k__3;
  input [7:0] k__4;
  wire [7:0] k__4;
  input [7:0] k__5;
  wire [7:0] k__5;
  input [7:0] k__6;
  wire [7:0] k__6;
  input [7:0] k__7;
  wire [7:0] k__7;
  input [7:0] k__8;
  wire [7:0] k__8;
  input [7:0] k__9;
  wire [7:0] k__9;
  input [7:0] k__10;
  wire [7:0] k__10;
  input [7:0] k__11;
  wire [7:0] k__11;
  input [7:0] k__12;
  wire [7:0] k__12;
  input [7:0] k__13;
  wire [7:0] k__13;
  input [7:0] k__14;
  wire [7:0] k__14;
  input [7:0] k__15;
  wire [7:0] k__15;
  input [15:0] step;
  wire [15:0] step;
  input signed [15:0] zero;
  wire signed [15:0] zero;
  input signed [61:0] limit;
  wire signed [61:0] limit;
  input clk;
  wire clk;
  input rst;
  wire rst;
  output decided;
  reg decided = 1'h0;
  output replay;
  reg replay = 1'h0;
  output signed [61:0] total;
  reg signed [61:0] total = 62'h0000000000000000;
  input valid;
  wire valid;
  wire [62:0] \$1 ;
  wire [23:0] \$10 ;
  reg [39:0] \$100 ;
  reg \$101 ;
  reg \$102 ;
  reg \$103 ;
  reg \$104 ;
  reg [15:0] \$105 ;
  reg [56:0] \$106 ;
  reg \$107 ;
  reg \$108 ;
  reg \$109 ;
  wire [23:0] \$11 ;
  reg \$110 ;
  reg \$111 ;
  reg [61:0] \$112 ;
  reg [61:0] \$113 ;
  reg \$114 ;
  wire [23:0] \$12 ;
  wire [23:0] \$13 ;
  wire [23:0] \$14 ;
  wire [23:0] \$15 ;
  wire [23:0] \$16 ;
  wire [23:0] \$17 ;
  wire [23:0] \$18 ;
  wire [23:0] \$19 ;
  wire [3:0] \$2 ;
  wire [23:0] \$20 ;
  wire [23:0] \$21 ;
  wire [16:0] \$22 ;
  wire [17:0] \$23 ;
  wire [18:0] \$24 ;
  wire [19:0] \$25 ;
  wire [20:0] \$26 ;
  wire [21:0] \$27 ;
  wire [22:0] \$28 ;
  wire [23:0] \$29 ;
  wire [3:0] \$3 ;
  wire [24:0] \$30 ;
  wire [25:0] \$31 ;
  wire [26:0] \$32 ;
  wire [27:0] \$33 ;
  wire [28:0] \$34 ;
  wire [29:0] \$35 ;
  wire [30:0] \$36 ;
  wire [31:0] \$37 ;
  wire \$38 ;
  wire \$39 ;
  wire [5:0] \$4 ;
  wire [39:0] \$40 ;
  wire [25:0] \$41 ;
  wire [26:0] \$42 ;
  wire [27:0] \$43 ;
  wire [28:0] \$44 ;
  wire [29:0] \$45 ;
  wire [30:0] \$46 ;
  wire [31:0] \$47 ;
  wire [32:0] \$48 ;
  wire [33:0] \$49 ;
  wire [5:0] \$5 ;
  wire [34:0] \$50 ;
  wire [35:0] \$51 ;
  wire [36:0] \$52 ;
  wire [37:0] \$53 ;
  wire [38:0] \$54 ;
  wire [39:0] \$55 ;
  wire [40:0] \$56 ;
  wire [41:0] \$57 ;
  wire [39:0] \$58 ;
  wire [40:0] \$59 ;
  wire [23:0] \$6 ;
  wire [55:0] \$60 ;
  wire [56:0] \$61 ;
  wire [55:0] \$62 ;
  wire \$63 ;
  wire \$64 ;
  wire [61:0] \$65 ;
  wire \$66 ;
  reg [2:0] \$67 ;
  reg [4:0] \$68 ;
  reg [24:0] \$69 ;
  wire [23:0] \$7 ;
  reg [24:0] \$70 ;
  reg [24:0] \$71 ;
  reg [24:0] \$72 ;
  reg [24:0] \$73 ;
  reg [24:0] \$74 ;
  reg [24:0] \$75 ;
  reg [24:0] \$76 ;
  reg [24:0] \$77 ;
  reg [24:0] \$78 ;
  reg [24:0] \$79 ;
  wire [23:0] \$8 ;
  reg [24:0] \$80 ;
  reg [24:0] \$81 ;
  reg [24:0] \$82 ;
  reg [24:0] \$83 ;
  reg [24:0] \$84 ;
  reg [19:0] \$85 ;
  reg \$86 ;
  reg \$87 ;
  reg \$88 ;
  reg \$89 ;
  wire [23:0] \$9 ;
  reg [15:0] \$90 ;
  reg [15:0] \$91 ;
  reg [39:0] \$92 ;
  reg [39:0] \$93 ;
  reg \$94 ;
  reg \$95 ;
  reg \$96 ;
  reg \$97 ;
  reg [15:0] \$98 ;
  reg [15:0] \$99 ;
  reg signed [61:0] \$like  = 62'h0000000000000000;
  wire \$signal ;
  reg [2:0] \$signal$42  = 3'h0;
  reg signed [39:0] \$signal$71  = 40'h0000000000;
  reg signed [39:0] centred = 40'h0000000000;
  reg [15:0] centred_0 = 16'h0000;
  reg centred_flag_0 = 1'h0;
  reg centred_flag_1 = 1'h0;
  reg centred_flag_2 = 1'h0;
  reg centred_flag_3 = 1'h0;
  reg [4:0] head = 5'h00;
  reg [15:0] head_0 = 16'h0000;
  reg signed [15:0] head_1 = 16'h0000;
  reg head_flag_0 = 1'h0;
  reg head_flag_1 = 1'h0;
  reg head_flag_2 = 1'h0;
  reg head_flag_3 = 1'h0;
  wire last_head;
  reg signed [24:0] product_0 = 25'h0000000;
  reg signed [24:0] product_1 = 25'h0000000;
  reg signed [24:0] product_10 = 25'h0000000;
  reg signed [24:0] product_11 = 25'h0000000;
  reg signed [24:0] product_12 = 25'h0000000;
  reg signed [24:0] product_13 = 25'h0000000;
  reg signed [24:0] product_14 = 25'h0000000;
  reg signed [24:0] product_15 = 25'h0000000;
  reg signed [24:0] product_2 = 25'h0000000;
  reg signed [24:0] product_3 = 25'h0000000;
  reg signed [24:0] product_4 = 25'h0000000;
  reg signed [24:0] product_5 = 25'h0000000;
  reg signed [24:0] product_6 = 25'h0000000;
  reg signed [24:0] product_7 = 25'h0000000;
  reg signed [24:0] product_8 = 25'h0000000;
  reg signed [24:0] product_9 = 25'h0000000;
  reg [15:0] products_0 = 16'h0000;
  reg signed [15:0] products_1 = 16'h0000;
  reg products_flag_0 = 1'h0;
  reg products_flag_1 = 1'h0;
  reg products_flag_2 = 1'h0;
  reg products_flag_3 = 1'h0;
  reg signed [39:0] q_dot = 40'h0000000000;
  reg signed [19:0] q_sum = 20'h00000;
  reg signed [56:0] scaled = 57'h000000000000000;
  reg scaled_flag_0 = 1'h0;
  reg scaled_flag_1 = 1'h0;
  reg scaled_flag_2 = 1'h0;
  reg scaled_flag_3 = 1'h0;
  wire signed [61:0] \total$45 ;
  assign \$signal  = \$signal$42  == 3'h7;
  assign last_head = head == 5'h1f;
  assign \$1  = $signed(\$like ) + $signed(scaled);
  assign \$2  = \$signal$42  + 1'h1;
  assign \$3  = \$signal  ? 4'h0 : \$2 ;
  assign \$4  = head + 1'h1;
  assign \$5  = last_head ? 6'h00 : \$4 ;
  assign \$6  = $signed(q__0) * $signed({ 1'h0, k__0 });
  assign \$7  = $signed(q__1) * $signed({ 1'h0, k__1 });
  assign \$8  = $signed(q__2) * $signed({ 1'h0, k__2 });
  assign \$9  = $signed(q__3) * $signed({ 1'h0, k__3 });
  assign \$10  = $signed(q__4) * $signed({ 1'h0, k__4 });
  assign \$11  = $signed(q__5) * $signed({ 1'h0, k__5 });
  assign \$12  = $signed(q__6) * $signed({ 1'h0, k__6 });
  assign \$13  = $signed(q__7) * $signed({ 1'h0, k__7 });
  assign \$14  = $signed(q__8) * $signed({ 1'h0, k__8 });
  assign \$15  = $signed(q__9) * $signed({ 1'h0, k__9 });
  assign \$16  = $signed(q__10) * $signed({ 1'h0, k__10 });
  assign \$17  = $signed(q__11) * $signed({ 1'h0, k__11 });
  assign \$18  = $signed(q__12) * $signed({ 1'h0, k__12 });
  assign \$19  = $signed(q__13) * $signed({ 1'h0, k__13 });
  assign \$20  = $signed(q__14) * $signed({ 1'h0, k__14 });
  assign \$21  = $signed(q__15) * $signed({ 1'h0, k__15 });
  assign \$22  = $signed(1'h0) + $signed(q__0);
  assign \$23  = $signed(\$22 ) + $signed(q__1);
  assign \$24  = $signed(\$23 ) + $signed(q__2);
  assign \$25  = $signed(\$24 ) + $signed(q__3);
  assign \$26  = $signed(\$25 ) + $signed(q__4);
  assign \$27  = $signed(\$26 ) + $signed(q__5);
  assign \$28  = $signed(\$27 ) + $signed(q__6);
  assign \$29  = $signed(\$28 ) + $signed(q__7);
  assign \$30  = $signed(\$29 ) + $signed(q__8);
  assign \$31  = $signed(\$30 ) + $signed(q__9);
  assign \$32  = $signed(\$31 ) + $signed(q__10);
  assign \$33  = $signed(\$32 ) + $signed(q__11);
  assign \$34  = $signed(\$33 ) + $signed(q__12);
  assign \$35  = $signed(\$34 ) + $signed(q__13);
  assign \$36  = $signed(\$35 ) + $signed(q__14);
  assign \$37  = $signed(\$36 ) + $signed(q__15);
  assign \$38  = ! \$signal$42 ;
  assign \$39  = \$signal  & last_head;
  assign \$40  = products_flag_1 ? 40'h0000000000 : \$signal$71 ;
  assign \$41  = $signed(1'h0) + $signed(product_0);
  assign \$42  = $signed(\$41 ) + $signed(product_1);
  assign \$43  = $signed(\$42 ) + $signed(product_2);
  assign \$44  = $signed(\$43 ) + $signed(product_3);
  assign \$45  = $signed(\$44 ) + $signed(product_4);
  assign \$46  = $signed(\$45 ) + $signed(product_5);
  assign \$47  = $signed(\$46 ) + $signed(product_6);
  assign \$48  = $signed(\$47 ) + $signed(product_7);
  assign \$49  = $signed(\$48 ) + $signed(product_8);
  assign \$50  = $signed(\$49 ) + $signed(product_9);
  assign \$51  = $signed(\$50 ) + $signed(product_10);
  assign \$52  = $signed(\$51 ) + $signed(product_11);
  assign \$53  = $signed(\$52 ) + $signed(product_12);
  assign \$54  = $signed(\$53 ) + $signed(product_13);
  assign \$55  = $signed(\$54 ) + $signed(product_14);
  assign \$56  = $signed(\$55 ) + $signed(product_15);
  assign \$57  = $signed(\$40 ) + $signed(\$56 );
  assign \$58  = products_flag_1 ? 40'h0000000000 : q_dot;
  assign \$59  = $signed(\$58 ) + $signed(q_sum);
  assign \$60  = $signed(head_1) * $signed(q_dot);
  assign \$61  = $signed(\$signal$71 ) - $signed(\$60 );
  assign \$62  = $signed(centred) * $signed({ 1'h0, centred_0 });
  assign \$63  = scaled_flag_0 & scaled_flag_3;
  assign \$64  = scaled_flag_0 & scaled_flag_2;
  assign \$65  = scaled_flag_3 ? 62'h0000000000000000 : \$1 [61:0];
  assign \$66  = $signed(\$1 [61:0]) > $signed(limit);
  always @(posedge clk)
    \$signal$42  <= \$67 ;
  always @(posedge clk)
    head <= \$68 ;
  always @(posedge clk)
    product_0 <= \$69 ;
  always @(posedge clk)
    product_1 <= \$70 ;
  always @(posedge clk)
    product_2 <= \$71 ;
  always @(posedge clk)
    product_3 <= \$72 ;
  always @(posedge clk)
    product_4 <= \$73 ;
  always @(posedge clk)
    product_5 <= \$74 ;
  always @(posedge clk)
    product_6 <= \$75 ;
  always @(posedge clk)
    product_7 <= \$76 ;
  always @(posedge clk)
    product_8 <= \$77 ;
  always @(posedge clk)
    product_9 <= \$78 ;
  always @(posedge clk)
    product_10 <= \$79 ;
  always @(posedge clk)
    product_11 <= \$80 ;
  always @(posedge clk)
    product_12 <= \$81 ;
  always @(posedge clk)
    product_13 <= \$82 ;
  always @(posedge clk)
    product_14 <= \$83 ;
  always @(posedge clk)
    product_15 <= \$84 ;
  always @(posedge clk)
    q_sum <= \$85 ;
  always @(posedge clk)
    products_flag_0 <= \$86 ;
  always @(posedge clk)
    products_flag_1 <= \$87 ;
  always @(posedge clk)
    products_flag_2 <= \$88 ;
  always @(posedge clk)
    products_flag_3 <= \$89 ;
  always @(posedge clk)
    products_0 <= \$90 ;
  always @(posedge clk)
    products_1 <= \$91 ;
  always @(posedge clk)
    \$signal$71  <= \$92 ;
  always @(posedge clk)
    q_dot <= \$93 ;
  always @(posedge clk)
    head_flag_0 <= \$94 ;
  always @(posedge clk)
    head_flag_1 <= \$95 ;
  always @(posedge clk)
    head_flag_2 <= \$96 ;
  always @(posedge clk)
    head_flag_3 <= \$97 ;
  always @(posedge clk)
    head_0 <= \$98 ;
  always @(posedge clk)
    head_1 <= \$99 ;
  always @(posedge clk)
    centred <= \$100 ;
  always @(posedge clk)
    centred_flag_0 <= \$101 ;
  always @(posedge clk)
    centred_flag_1 <= \$102 ;
  always @(posedge clk)
    centred_flag_2 <= \$103 ;
  always @(posedge clk)
    centred_flag_3 <= \$104 ;
  always @(posedge clk)
    centred_0 <= \$105 ;
  always @(posedge clk)
    scaled <= \$106 ;
  always @(posedge clk)
    scaled_flag_0 <= \$107 ;
  always @(posedge clk)
    scaled_flag_1 <= \$108 ;
  always @(posedge clk)
    scaled_flag_2 <= \$109 ;
  always @(posedge clk)
    scaled_flag_3 <= \$110 ;
  always @(posedge clk)
    decided <= \$111 ;
  always @(posedge clk)
    \$like  <= \$112 ;
  always @(posedge clk)
    total <= \$113 ;
  always @(posedge clk)
    replay <= \$114 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$67  = \$signal$42 ;
    if (valid) begin
      \$67  = \$3 [2:0];
    end
    if (rst) begin
      \$67  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$68  = head;
    if (valid) begin
      if (\$signal ) begin
        \$68  = \$5 [4:0];
      end
    end
    if (rst) begin
      \$68  = 5'h00;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$69  = { \$6 [23], \$6  };
    if (rst) begin
      \$69  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$70  = { \$7 [23], \$7  };
    if (rst) begin
      \$70  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$71  = { \$8 [23], \$8  };
    if (rst) begin
      \$71  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$72  = { \$9 [23], \$9  };
    if (rst) begin
      \$72  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$73  = { \$10 [23], \$10  };
    if (rst) begin
      \$73  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$74  = { \$11 [23], \$11  };
    if (rst) begin
      \$74  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$75  = { \$12 [23], \$12  };
    if (rst) begin
      \$75  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$76  = { \$13 [23], \$13  };
    if (rst) begin
      \$76  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$77  = { \$14 [23], \$14  };
    if (rst) begin
      \$77  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$78  = { \$15 [23], \$15  };
    if (rst) begin
      \$78  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$79  = { \$16 [23], \$16  };
    if (rst) begin
      \$79  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$80  = { \$17 [23], \$17  };
    if (rst) begin
      \$80  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$81  = { \$18 [23], \$18  };
    if (rst) begin
      \$81  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$82  = { \$19 [23], \$19  };
    if (rst) begin
      \$82  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$83  = { \$20 [23], \$20  };
    if (rst) begin
      \$83  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$84  = { \$21 [23], \$21  };
    if (rst) begin
      \$84  = 25'h0000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$85  = \$37 [19:0];
    if (rst) begin
      \$85  = 20'h00000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$86  = valid;
    if (rst) begin
      \$86  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$87  = \$38 ;
    if (rst) begin
      \$87  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$88  = \$signal ;
    if (rst) begin
      \$88  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$89  = \$39 ;
    if (rst) begin
      \$89  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$90  = step;
    if (rst) begin
      \$90  = 16'h0000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$91  = zero;
    if (rst) begin
      \$91  = 16'h0000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$92  = \$signal$71 ;
    if (products_flag_0) begin
      \$92  = \$57 [39:0];
    end
    if (rst) begin
      \$92  = 40'h0000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$93  = q_dot;
    if (products_flag_0) begin
      \$93  = \$59 [39:0];
    end
    if (rst) begin
      \$93  = 40'h0000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$94  = products_flag_0;
    if (rst) begin
      \$94  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$95  = products_flag_1;
    if (rst) begin
      \$95  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$96  = products_flag_2;
    if (rst) begin
      \$96  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$97  = products_flag_3;
    if (rst) begin
      \$97  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$98  = products_0;
    if (rst) begin
      \$98  = 16'h0000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$99  = products_1;
    if (rst) begin
      \$99  = 16'h0000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$100  = \$61 [39:0];
    if (rst) begin
      \$100  = 40'h0000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$101  = head_flag_0;
    if (rst) begin
      \$101  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$102  = head_flag_1;
    if (rst) begin
      \$102  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$103  = head_flag_2;
    if (rst) begin
      \$103  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$104  = head_flag_3;
    if (rst) begin
      \$104  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$105  = head_0;
    if (rst) begin
      \$105  = 16'h0000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$106  = { \$62 [55], \$62  };
    if (rst) begin
      \$106  = 57'h000000000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$107  = centred_flag_0;
    if (rst) begin
      \$107  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$108  = centred_flag_1;
    if (rst) begin
      \$108  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$109  = centred_flag_2;
    if (rst) begin
      \$109  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$110  = centred_flag_3;
    if (rst) begin
      \$110  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$111  = \$63 ;
    if (rst) begin
      \$111  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$112  = \$like ;
    if (\$64 ) begin
      \$112  = \$65 ;
    end
    if (rst) begin
      \$112  = 62'h0000000000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$113  = total;
    if (\$64 ) begin
      \$113  = \$1 [61:0];
    end
    if (rst) begin
      \$113  = 62'h0000000000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$114  = replay;
    if (\$64 ) begin
      \$114  = \$66 ;
    end
    if (rst) begin
      \$114  = 1'h0;
    end
  end
  assign \total$45  = \$1 [61:0];
endmodule
