module heap_63(valid, score, index, read, at, clk, rst, ready, busy, filled, found, k);
  reg \$auto$verilog_backend.cc:2505:dump_module$1  = 0;
  input valid;
  wire valid;
  input [15:0] score;
  wire [15:0] score;
  input [15:0] index;
  wire [15:0] index;
  input read;
  wire read;
  input [5:0] at;
  wire [5:0] at;
  input clk;
  wire clk;
  input rst;
  wire rst;
  output ready;
  wire ready;
  output busy;
  wire busy;
  output filled;
  reg filled;
  output [15:0] found;
  reg [15:0] found;
  input [5:0] k;
  wire [5:0] k;
  wire [1:0] \$1 ;
  wire \$10 ;
  wire [5:0] \$100 ;
  wire \$101 ;
  wire \$102 ;
  wire \$103 ;
  wire \$104 ;
  wire [5:0] \$105 ;
  wire \$106 ;
  wire \$107 ;
  wire \$108 ;
  wire \$109 ;
  wire \$11 ;
  wire [5:0] \$110 ;
  wire \$111 ;
  wire \$112 ;
  wire \$113 ;
  wire \$114 ;
  wire [5:0] \$115 ;
  wire \$116 ;
  wire \$117 ;
  wire \$118 ;
  wire \$119 ;
  wire \$12 ;
  wire [5:0] \$120 ;
  wire \$121 ;
  wire \$122 ;
  wire \$123 ;
  wire \$124 ;
  wire \$125 ;
  wire [46:0] \$126 ;
  wire [46:0] \$127 ;
  wire [46:0] \$128 ;
  wire \$129 ;
  wire [2:0] \$13 ;
  wire \$130 ;
  wire [46:0] \$131 ;
  wire [46:0] \$132 ;
  wire [46:0] \$133 ;
  wire \$134 ;
  wire [2:0] \$135 ;
  wire \$136 ;
  wire \$137 ;
  wire \$138 ;
  wire \$139 ;
  wire \$14 ;
  wire \$140 ;
  wire \$141 ;
  wire [1:0] \$142 ;
  wire [3:0] \$143 ;
  wire \$144 ;
  wire \$145 ;
  wire \$146 ;
  wire \$147 ;
  wire [1:0] \$148 ;
  wire [1:0] \$149 ;
  wire \$15 ;
  wire [2:0] \$150 ;
  wire [4:0] \$151 ;
  wire \$152 ;
  wire \$153 ;
  wire \$154 ;
  wire \$155 ;
  wire [2:0] \$156 ;
  wire [2:0] \$157 ;
  wire [3:0] \$158 ;
  wire [5:0] \$159 ;
  wire \$16 ;
  wire \$160 ;
  wire \$161 ;
  wire \$162 ;
  wire \$163 ;
  wire [3:0] \$164 ;
  wire [3:0] \$165 ;
  wire [4:0] \$166 ;
  wire [6:0] \$167 ;
  wire \$168 ;
  wire \$169 ;
  wire \$17 ;
  wire \$170 ;
  wire \$171 ;
  wire [4:0] \$172 ;
  wire [4:0] \$173 ;
  wire [5:0] \$174 ;
  wire \$175 ;
  wire \$176 ;
  reg \$177 ;
  reg [32:0] \$178 ;
  reg \$179 ;
  wire [1:0] \$18 ;
  reg [32:0] \$180 ;
  reg \$181 ;
  reg [32:0] \$182 ;
  reg \$183 ;
  reg [32:0] \$184 ;
  reg [1:0] \$185 ;
  reg \$186 ;
  reg [32:0] \$187 ;
  reg [2:0] \$188 ;
  reg \$189 ;
  wire [3:0] \$19 ;
  reg [32:0] \$190 ;
  reg [3:0] \$191 ;
  reg \$192 ;
  reg [32:0] \$193 ;
  reg [4:0] \$194 ;
  wire [2:0] \$2 ;
  wire [4:0] \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire [1:0] \$23 ;
  wire [3:0] \$24 ;
  wire \$25 ;
  wire \$26 ;
  wire \$27 ;
  wire \$28 ;
  wire \$29 ;
  wire [3:0] \$3 ;
  wire \$30 ;
  wire [2:0] \$31 ;
  wire [4:0] \$32 ;
  wire [5:0] \$33 ;
  wire \$34 ;
  wire \$35 ;
  wire [2:0] \$36 ;
  wire [4:0] \$37 ;
  wire \$38 ;
  wire \$39 ;
  wire [4:0] \$4 ;
  wire \$40 ;
  wire \$41 ;
  wire \$42 ;
  wire \$43 ;
  wire [3:0] \$44 ;
  wire [5:0] \$45 ;
  wire [6:0] \$46 ;
  wire \$47 ;
  wire \$48 ;
  wire [3:0] \$49 ;
  wire [5:0] \$5 ;
  wire [5:0] \$50 ;
  wire \$51 ;
  wire \$52 ;
  wire \$53 ;
  wire \$54 ;
  wire \$55 ;
  wire \$56 ;
  wire [4:0] \$57 ;
  wire [6:0] \$58 ;
  wire [7:0] \$59 ;
  wire [6:0] \$6 ;
  wire \$60 ;
  wire \$61 ;
  wire [4:0] \$62 ;
  wire [6:0] \$63 ;
  wire \$64 ;
  wire \$65 ;
  wire \$66 ;
  wire \$67 ;
  wire \$68 ;
  wire \$69 ;
  wire \$7 ;
  wire \$70 ;
  wire \$71 ;
  wire [6:0] \$72 ;
  wire [5:0] \$73 ;
  wire \$74 ;
  wire [5:0] \$75 ;
  wire \$76 ;
  wire \$77 ;
  wire \$78 ;
  wire \$79 ;
  wire [2:0] \$8 ;
  wire [5:0] \$80 ;
  wire \$81 ;
  wire \$82 ;
  wire \$83 ;
  wire \$84 ;
  wire [5:0] \$85 ;
  wire \$86 ;
  wire \$87 ;
  wire \$88 ;
  wire \$89 ;
  wire [3:0] \$9 ;
  wire [5:0] \$90 ;
  wire \$91 ;
  wire \$92 ;
  wire \$93 ;
  wire \$94 ;
  wire [5:0] \$95 ;
  wire \$96 ;
  wire \$97 ;
  wire \$98 ;
  wire \$99 ;
  wire [-1:0] \$signature__addr ;
  wire [-1:0] \$signature__addr$22 ;
  reg \$signature__addr$29 ;
  reg \$signature__addr$31 ;
  wire [-1:0] \$signature__addr$36 ;
  wire [-1:0] \$signature__addr$39 ;
  reg [1:0] \$signature__addr$44 ;
  reg [1:0] \$signature__addr$46 ;
  reg \$signature__addr$51 ;
  reg \$signature__addr$54 ;
  reg [2:0] \$signature__addr$59 ;
  reg [2:0] \$signature__addr$61 ;
  reg [1:0] \$signature__addr$66 ;
  reg [1:0] \$signature__addr$69 ;
  reg [3:0] \$signature__addr$74 ;
  reg [3:0] \$signature__addr$76 ;
  reg [2:0] \$signature__addr$81 ;
  reg [2:0] \$signature__addr$84 ;
  reg [3:0] \$signature__addr$89 ;
  reg [3:0] \$signature__addr$93 ;
  wire [32:0] \$signature__data ;
  wire [32:0] \$signature__data$25 ;
  wire [32:0] \$signature__data$33 ;
  wire [32:0] \$signature__data$34 ;
  reg [32:0] \$signature__data$37 ;
  reg [32:0] \$signature__data$40 ;
  wire [32:0] \$signature__data$48 ;
  wire [32:0] \$signature__data$49 ;
  reg [32:0] \$signature__data$52 ;
  reg [32:0] \$signature__data$55 ;
  wire [32:0] \$signature__data$63 ;
  wire [32:0] \$signature__data$64 ;
  reg [32:0] \$signature__data$67 ;
  reg [32:0] \$signature__data$70 ;
  wire [32:0] \$signature__data$78 ;
  wire [32:0] \$signature__data$79 ;
  reg [32:0] \$signature__data$82 ;
  reg [32:0] \$signature__data$85 ;
  reg [32:0] \$signature__data$91 ;
  reg [32:0] \$signature__data$94 ;
  reg \$signature__en ;
  reg \$signature__en$41 ;
  reg \$signature__en$53 ;
  reg \$signature__en$56 ;
  reg \$signature__en$68 ;
  reg \$signature__en$71 ;
  reg \$signature__en$83 ;
  reg \$signature__en$86 ;
  reg \$signature__en$92 ;
  reg \$signature__en$95 ;
  wire goes_right_0;
  wire goes_right_1;
  wire goes_right_2;
  wire goes_right_3;
  wire goes_right_4;
  reg [32:0] key_0 = 33'h000000000;
  reg [32:0] key_1 = 33'h000000000;
  reg [32:0] key_2 = 33'h000000000;
  reg [32:0] key_3 = 33'h000000000;
  reg [32:0] key_4 = 33'h000000000;
  wire [32:0] key_5;
  wire [32:0] least_0;
  wire [32:0] least_1;
  wire [32:0] least_2;
  wire [32:0] least_3;
  wire [32:0] least_4;
  wire [5:0] number;
  wire [-1:0] place_0;
  reg place_1 = 1'h0;
  reg [1:0] place_2 = 2'h0;
  reg [2:0] place_3 = 3'h0;
  reg [3:0] place_4 = 4'h0;
  reg [4:0] place_5 = 5'h00;
  reg [32:0] root = 33'h000000000;
  reg sinks_0 = 1'h0;
  reg sinks_1 = 1'h0;
  reg sinks_2 = 1'h0;
  reg sinks_3 = 1'h0;
  reg sinks_4 = 1'h0;
  reg sinks_5 = 1'h0;
  reg [32:0] stays_0;
  reg [32:0] stays_1;
  reg [32:0] stays_2;
  reg [32:0] stays_3;
  reg [32:0] stays_4;
  reg [32:0] stays_5 = 33'h000000000;
  reg [32:0] level_1_0 [0:0];
  initial begin
    level_1_0[0] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (\$signature__en )
      level_1_0[1'h0] <= \$signature__data$37 ;
  end
  assign \$signature__data$25  = level_1_0[1'h0];
  reg [32:0] level_1_1 [0:0];
  initial begin
    level_1_1[0] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (\$signature__en$41 )
      level_1_1[1'h0] <= \$signature__data$40 ;
  end
  assign \$signature__data  = level_1_1[1'h0];
  reg [32:0] level_2_0 [1:0];
  initial begin
    level_2_0[0] = 33'h000000000;
    level_2_0[1] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (\$signature__en$53 )
      level_2_0[\$signature__addr$51 ] <= \$signature__data$52 ;
  end
  assign \$signature__data$34  = level_2_0[\$signature__addr$29 ];
  reg [32:0] level_2_1 [1:0];
  initial begin
    level_2_1[0] = 33'h000000000;
    level_2_1[1] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (\$signature__en$56 )
      level_2_1[\$signature__addr$54 ] <= \$signature__data$55 ;
  end
  assign \$signature__data$33  = level_2_1[\$signature__addr$31 ];
  reg [32:0] level_3_0 [3:0];
  initial begin
    level_3_0[0] = 33'h000000000;
    level_3_0[1] = 33'h000000000;
    level_3_0[2] = 33'h000000000;
    level_3_0[3] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (\$signature__en$68 )
      level_3_0[\$signature__addr$66 ] <= \$signature__data$67 ;
  end
  assign \$signature__data$49  = level_3_0[\$signature__addr$44 ];
  reg [32:0] level_3_1 [3:0];
  initial begin
    level_3_1[0] = 33'h000000000;
    level_3_1[1] = 33'h000000000;
    level_3_1[2] = 33'h000000000;
    level_3_1[3] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (\$signature__en$71 )
      level_3_1[\$signature__addr$69 ] <= \$signature__data$70 ;
  end
  assign \$signature__data$48  = level_3_1[\$signature__addr$46 ];
  reg [32:0] level_4_0 [7:0];
  initial begin
    level_4_0[0] = 33'h000000000;
    level_4_0[1] = 33'h000000000;
    level_4_0[2] = 33'h000000000;
    level_4_0[3] = 33'h000000000;
    level_4_0[4] = 33'h000000000;
    level_4_0[5] = 33'h000000000;
    level_4_0[6] = 33'h000000000;
    level_4_0[7] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (\$signature__en$83 )
      level_4_0[\$signature__addr$81 ] <= \$signature__data$82 ;
  end
  assign \$signature__data$64  = level_4_0[\$signature__addr$59 ];
  reg [32:0] level_4_1 [7:0];
  initial begin
    level_4_1[0] = 33'h000000000;
    level_4_1[1] = 33'h000000000;
    level_4_1[2] = 33'h000000000;
    level_4_1[3] = 33'h000000000;
    level_4_1[4] = 33'h000000000;
    level_4_1[5] = 33'h000000000;
    level_4_1[6] = 33'h000000000;
    level_4_1[7] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (\$signature__en$86 )
      level_4_1[\$signature__addr$84 ] <= \$signature__data$85 ;
  end
  assign \$signature__data$63  = level_4_1[\$signature__addr$61 ];
  reg [32:0] level_5_0 [15:0];
  initial begin
    level_5_0[0] = 33'h000000000;
    level_5_0[1] = 33'h000000000;
    level_5_0[2] = 33'h000000000;
    level_5_0[3] = 33'h000000000;
    level_5_0[4] = 33'h000000000;
    level_5_0[5] = 33'h000000000;
    level_5_0[6] = 33'h000000000;
    level_5_0[7] = 33'h000000000;
    level_5_0[8] = 33'h000000000;
    level_5_0[9] = 33'h000000000;
    level_5_0[10] = 33'h000000000;
    level_5_0[11] = 33'h000000000;
    level_5_0[12] = 33'h000000000;
    level_5_0[13] = 33'h000000000;
    level_5_0[14] = 33'h000000000;
    level_5_0[15] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (\$signature__en$92 )
      level_5_0[\$signature__addr$89 ] <= \$signature__data$91 ;
  end
  assign \$signature__data$79  = level_5_0[\$signature__addr$74 ];
  reg [32:0] level_5_1 [15:0];
  initial begin
    level_5_1[0] = 33'h000000000;
    level_5_1[1] = 33'h000000000;
    level_5_1[2] = 33'h000000000;
    level_5_1[3] = 33'h000000000;
    level_5_1[4] = 33'h000000000;
    level_5_1[5] = 33'h000000000;
    level_5_1[6] = 33'h000000000;
    level_5_1[7] = 33'h000000000;
    level_5_1[8] = 33'h000000000;
    level_5_1[9] = 33'h000000000;
    level_5_1[10] = 33'h000000000;
    level_5_1[11] = 33'h000000000;
    level_5_1[12] = 33'h000000000;
    level_5_1[13] = 33'h000000000;
    level_5_1[14] = 33'h000000000;
    level_5_1[15] = 33'h000000000;
  end
  always @(posedge clk) begin
    if (\$signature__en$95 )
      level_5_1[\$signature__addr$93 ] <= \$signature__data$94 ;
  end
  assign \$signature__data$78  = level_5_1[\$signature__addr$76 ];
  assign ready = ~ sinks_0;
  assign \$1  = 1'h0 + sinks_0;
  assign \$2  = \$1  + sinks_1;
  assign \$3  = \$2  + sinks_2;
  assign \$4  = \$3  + sinks_3;
  assign \$5  = \$4  + sinks_4;
  assign \$6  = \$5  + sinks_5;
  assign busy = | \$6 ;
  assign \$10  = 4'h3 <= k;
  assign \$11  = \$signature__data  < \$signature__data$25 ;
  assign goes_right_0 = \$10  & \$11 ;
  assign least_0 = goes_right_0 ? \$signature__data  : \$signature__data$25 ;
  assign \$14  = 3'h2 <= k;
  assign \$15  = sinks_0 & \$14 ;
  assign \$16  = least_0 < key_0;
  assign \$17  = \$15  & \$16 ;
  assign \$19  = 2'h2 * \$18 ;
  assign \$20  = \$19  + 1'h1;
  assign \$21  = \$20  <= k;
  assign \$22  = \$signature__data$33  < \$signature__data$34 ;
  assign goes_right_1 = \$21  & \$22 ;
  assign least_1 = goes_right_1 ? \$signature__data$33  : \$signature__data$34 ;
  assign \$24  = 2'h2 * \$23 ;
  assign \$25  = \$24  <= k;
  assign \$26  = sinks_1 & \$25 ;
  assign \$27  = least_1 < key_1;
  assign \$28  = \$26  & \$27 ;
  assign \$29  = ! place_1;
  assign \$32  = 2'h2 * \$31 ;
  assign \$33  = \$32  + 1'h1;
  assign \$34  = \$33  <= k;
  assign \$35  = \$signature__data$48  < \$signature__data$49 ;
  assign goes_right_2 = \$34  & \$35 ;
  assign least_2 = goes_right_2 ? \$signature__data$48  : \$signature__data$49 ;
  assign \$37  = 2'h2 * \$36 ;
  assign \$38  = \$37  <= k;
  assign \$39  = sinks_2 & \$38 ;
  assign \$40  = least_2 < key_2;
  assign \$41  = \$39  & \$40 ;
  assign \$42  = ! place_2[0];
  assign \$45  = 2'h2 * \$44 ;
  assign \$46  = \$45  + 1'h1;
  assign \$47  = \$46  <= k;
  assign \$48  = \$signature__data$63  < \$signature__data$64 ;
  assign goes_right_3 = \$47  & \$48 ;
  assign least_3 = goes_right_3 ? \$signature__data$63  : \$signature__data$64 ;
  assign \$50  = 2'h2 * \$49 ;
  assign \$51  = \$50  <= k;
  assign \$52  = sinks_3 & \$51 ;
  assign \$53  = least_3 < key_3;
  assign \$54  = \$52  & \$53 ;
  assign \$55  = ! place_3[0];
  assign \$58  = 2'h2 * \$57 ;
  assign \$59  = \$58  + 1'h1;
  assign \$60  = \$59  <= k;
  assign \$61  = \$signature__data$78  < \$signature__data$79 ;
  assign goes_right_4 = \$60  & \$61 ;
  assign least_4 = goes_right_4 ? \$signature__data$78  : \$signature__data$79 ;
  assign \$63  = 2'h2 * \$62 ;
  assign \$64  = \$63  <= k;
  assign \$65  = sinks_4 & \$64 ;
  assign \$66  = least_4 < key_4;
  assign \$67  = \$65  & \$66 ;
  assign \$68  = ! place_4[0];
  assign \$70  = ! place_5[0];
  assign \$72  = at + 1'h1;
  assign \$74  = \$73  == 1'h1;
  assign \$76  = \$75  == 1'h1;
  assign \$77  = read & \$76 ;
  assign \$78  = ! \$72 [0];
  assign \$79  = \$77  & \$78 ;
  assign \$81  = \$80  == 1'h1;
  assign \$82  = read & \$81 ;
  assign \$84  = \$82  & \$83 ;
  assign \$86  = \$85  == 1'h1;
  assign \$87  = read & \$86 ;
  assign \$88  = ! \$72 [0];
  assign \$89  = \$87  & \$88 ;
  assign \$91  = \$90  == 1'h1;
  assign \$92  = read & \$91 ;
  assign \$94  = \$92  & \$93 ;
  assign \$96  = \$95  == 1'h1;
  assign \$97  = read & \$96 ;
  assign \$98  = ! \$72 [0];
  assign \$99  = \$97  & \$98 ;
  assign \$101  = \$100  == 1'h1;
  assign \$102  = read & \$101 ;
  assign \$104  = \$102  & \$103 ;
  assign \$106  = \$105  == 1'h1;
  assign \$107  = read & \$106 ;
  assign \$108  = ! \$72 [0];
  assign \$109  = \$107  & \$108 ;
  assign \$111  = \$110  == 1'h1;
  assign \$112  = read & \$111 ;
  assign \$114  = \$112  & \$113 ;
  assign \$116  = \$115  == 1'h1;
  assign \$117  = read & \$116 ;
  assign \$118  = ! \$72 [0];
  assign \$119  = \$117  & \$118 ;
  assign \$121  = \$120  == 1'h1;
  assign \$122  = read & \$121 ;
  assign \$124  = \$122  & \$123 ;
  assign \$125  = valid & ready;
  assign \$128  = \$127  | { 31'h00000000, index };
  assign \$129  = \$128  > root;
  assign \$130  = \$125  & \$129 ;
  assign \$133  = \$132  | { 31'h00000000, index };
  assign \$136  = 3'h2 <= k;
  assign \$137  = sinks_0 & \$136 ;
  assign \$138  = least_0 < key_0;
  assign \$139  = \$137  & \$138 ;
  assign \$143  = 2'h2 * \$142 ;
  assign \$144  = \$143  <= k;
  assign \$145  = sinks_1 & \$144 ;
  assign \$146  = least_1 < key_1;
  assign \$147  = \$145  & \$146 ;
  assign \$149  = \$148  | { 1'h0, goes_right_1 };
  assign \$151  = 2'h2 * \$150 ;
  assign \$152  = \$151  <= k;
  assign \$153  = sinks_2 & \$152 ;
  assign \$154  = least_2 < key_2;
  assign \$155  = \$153  & \$154 ;
  assign \$157  = \$156  | { 2'h0, goes_right_2 };
  assign \$159  = 2'h2 * \$158 ;
  assign \$160  = \$159  <= k;
  assign \$161  = sinks_3 & \$160 ;
  assign \$162  = least_3 < key_3;
  assign \$163  = \$161  & \$162 ;
  assign \$165  = \$164  | { 3'h0, goes_right_3 };
  assign \$167  = 2'h2 * \$166 ;
  assign \$168  = \$167  <= k;
  assign \$169  = sinks_4 & \$168 ;
  assign \$170  = least_4 < key_4;
  assign \$171  = \$169  & \$170 ;
  assign \$173  = \$172  | { 4'h0, goes_right_4 };
  assign \$175  = \$174  == 1'h1;
  assign \$176  = read & \$175 ;
  always @(posedge clk)
    sinks_0 <= \$177 ;
  always @(posedge clk)
    key_0 <= \$178 ;
  always @(posedge clk)
    sinks_1 <= \$179 ;
  always @(posedge clk)
    key_1 <= \$180 ;
  always @(posedge clk)
    place_1 <= \$181 ;
  always @(posedge clk)
    root <= \$182 ;
  always @(posedge clk)
    sinks_2 <= \$183 ;
  always @(posedge clk)
    key_2 <= \$184 ;
  always @(posedge clk)
    place_2 <= \$185 ;
  always @(posedge clk)
    sinks_3 <= \$186 ;
  always @(posedge clk)
    key_3 <= \$187 ;
  always @(posedge clk)
    place_3 <= \$188 ;
  always @(posedge clk)
    sinks_4 <= \$189 ;
  always @(posedge clk)
    key_4 <= \$190 ;
  always @(posedge clk)
    place_4 <= \$191 ;
  always @(posedge clk)
    sinks_5 <= \$192 ;
  always @(posedge clk)
    stays_5 <= \$193 ;
  always @(posedge clk)
    place_5 <= \$194 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    stays_0 = key_0;
    if (\$17 ) begin
      stays_0 = least_0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    stays_1 = key_1;
    if (\$28 ) begin
      stays_1 = least_1;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$29  = 1'h0;
    if (sinks_1) begin
      \$signature__addr$29  = place_1;
    end
    if (\$89 ) begin
      \$signature__addr$29  = \$72 [1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$31  = 1'h0;
    if (sinks_1) begin
      \$signature__addr$31  = place_1;
    end
    if (\$94 ) begin
      \$signature__addr$31  = \$72 [1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__data$37  = 33'h000000000;
    if (sinks_1) begin
      \$signature__data$37  = stays_1;
    end
    if (\$79 ) begin
      \$signature__data$37  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__en  = 1'h0;
    if (sinks_1) begin
      \$signature__en  = \$29 ;
    end
    if (\$79 ) begin
      \$signature__en  = 1'h1;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__data$40  = 33'h000000000;
    if (sinks_1) begin
      \$signature__data$40  = stays_1;
    end
    if (\$84 ) begin
      \$signature__data$40  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__en$41  = 1'h0;
    if (sinks_1) begin
      \$signature__en$41  = \$30 ;
    end
    if (\$84 ) begin
      \$signature__en$41  = 1'h1;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    stays_2 = key_2;
    if (\$41 ) begin
      stays_2 = least_2;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$44  = 2'h0;
    if (sinks_2) begin
      \$signature__addr$44  = place_2;
    end
    if (\$99 ) begin
      \$signature__addr$44  = \$72 [2:1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$46  = 2'h0;
    if (sinks_2) begin
      \$signature__addr$46  = place_2;
    end
    if (\$104 ) begin
      \$signature__addr$46  = \$72 [2:1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$51  = 1'h0;
    if (sinks_2) begin
      \$signature__addr$51  = place_2[1];
    end
    if (\$89 ) begin
      \$signature__addr$51  = \$72 [1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__data$52  = 33'h000000000;
    if (sinks_2) begin
      \$signature__data$52  = stays_2;
    end
    if (\$89 ) begin
      \$signature__data$52  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__en$53  = 1'h0;
    if (sinks_2) begin
      \$signature__en$53  = \$42 ;
    end
    if (\$89 ) begin
      \$signature__en$53  = 1'h1;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$54  = 1'h0;
    if (sinks_2) begin
      \$signature__addr$54  = place_2[1];
    end
    if (\$94 ) begin
      \$signature__addr$54  = \$72 [1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__data$55  = 33'h000000000;
    if (sinks_2) begin
      \$signature__data$55  = stays_2;
    end
    if (\$94 ) begin
      \$signature__data$55  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__en$56  = 1'h0;
    if (sinks_2) begin
      \$signature__en$56  = \$43 ;
    end
    if (\$94 ) begin
      \$signature__en$56  = 1'h1;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    stays_3 = key_3;
    if (\$54 ) begin
      stays_3 = least_3;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$59  = 3'h0;
    if (sinks_3) begin
      \$signature__addr$59  = place_3;
    end
    if (\$109 ) begin
      \$signature__addr$59  = \$72 [3:1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$61  = 3'h0;
    if (sinks_3) begin
      \$signature__addr$61  = place_3;
    end
    if (\$114 ) begin
      \$signature__addr$61  = \$72 [3:1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$66  = 2'h0;
    if (sinks_3) begin
      \$signature__addr$66  = place_3[2:1];
    end
    if (\$99 ) begin
      \$signature__addr$66  = \$72 [2:1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__data$67  = 33'h000000000;
    if (sinks_3) begin
      \$signature__data$67  = stays_3;
    end
    if (\$99 ) begin
      \$signature__data$67  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__en$68  = 1'h0;
    if (sinks_3) begin
      \$signature__en$68  = \$55 ;
    end
    if (\$99 ) begin
      \$signature__en$68  = 1'h1;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$69  = 2'h0;
    if (sinks_3) begin
      \$signature__addr$69  = place_3[2:1];
    end
    if (\$104 ) begin
      \$signature__addr$69  = \$72 [2:1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__data$70  = 33'h000000000;
    if (sinks_3) begin
      \$signature__data$70  = stays_3;
    end
    if (\$104 ) begin
      \$signature__data$70  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__en$71  = 1'h0;
    if (sinks_3) begin
      \$signature__en$71  = \$56 ;
    end
    if (\$104 ) begin
      \$signature__en$71  = 1'h1;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    stays_4 = key_4;
    if (\$67 ) begin
      stays_4 = least_4;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$74  = 4'h0;
    if (sinks_4) begin
      \$signature__addr$74  = place_4;
    end
    if (\$119 ) begin
      \$signature__addr$74  = \$72 [4:1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$76  = 4'h0;
    if (sinks_4) begin
      \$signature__addr$76  = place_4;
    end
    if (\$124 ) begin
      \$signature__addr$76  = \$72 [4:1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$81  = 3'h0;
    if (sinks_4) begin
      \$signature__addr$81  = place_4[3:1];
    end
    if (\$109 ) begin
      \$signature__addr$81  = \$72 [3:1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__data$82  = 33'h000000000;
    if (sinks_4) begin
      \$signature__data$82  = stays_4;
    end
    if (\$109 ) begin
      \$signature__data$82  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__en$83  = 1'h0;
    if (sinks_4) begin
      \$signature__en$83  = \$68 ;
    end
    if (\$109 ) begin
      \$signature__en$83  = 1'h1;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$84  = 3'h0;
    if (sinks_4) begin
      \$signature__addr$84  = place_4[3:1];
    end
    if (\$114 ) begin
      \$signature__addr$84  = \$72 [3:1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__data$85  = 33'h000000000;
    if (sinks_4) begin
      \$signature__data$85  = stays_4;
    end
    if (\$114 ) begin
      \$signature__data$85  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__en$86  = 1'h0;
    if (sinks_4) begin
      \$signature__en$86  = \$69 ;
    end
    if (\$114 ) begin
      \$signature__en$86  = 1'h1;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$89  = 4'h0;
    if (sinks_5) begin
      \$signature__addr$89  = place_5[4:1];
    end
    if (\$119 ) begin
      \$signature__addr$89  = \$72 [4:1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__data$91  = 33'h000000000;
    if (sinks_5) begin
      \$signature__data$91  = stays_5;
    end
    if (\$119 ) begin
      \$signature__data$91  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__en$92  = 1'h0;
    if (sinks_5) begin
      \$signature__en$92  = \$70 ;
    end
    if (\$119 ) begin
      \$signature__en$92  = 1'h1;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__addr$93  = 4'h0;
    if (sinks_5) begin
      \$signature__addr$93  = place_5[4:1];
    end
    if (\$124 ) begin
      \$signature__addr$93  = \$72 [4:1];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__data$94  = 33'h000000000;
    if (sinks_5) begin
      \$signature__data$94  = stays_5;
    end
    if (\$124 ) begin
      \$signature__data$94  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$signature__en$95  = 1'h0;
    if (sinks_5) begin
      \$signature__en$95  = \$71 ;
    end
    if (\$124 ) begin
      \$signature__en$95  = 1'h1;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    filled = 1'h0;
    if (\$74 ) begin
      filled = root[32];
    end
    if (\$79 ) begin
      filled = \$signature__data$25 [32];
    end
    if (\$84 ) begin
      filled = \$signature__data [32];
    end
    if (\$89 ) begin
      filled = \$signature__data$34 [32];
    end
    if (\$94 ) begin
      filled = \$signature__data$33 [32];
    end
    if (\$99 ) begin
      filled = \$signature__data$49 [32];
    end
    if (\$104 ) begin
      filled = \$signature__data$48 [32];
    end
    if (\$109 ) begin
      filled = \$signature__data$64 [32];
    end
    if (\$114 ) begin
      filled = \$signature__data$63 [32];
    end
    if (\$119 ) begin
      filled = \$signature__data$79 [32];
    end
    if (\$124 ) begin
      filled = \$signature__data$78 [32];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    found = 16'h0000;
    if (\$74 ) begin
      found = root[15:0];
    end
    if (\$79 ) begin
      found = \$signature__data$25 [15:0];
    end
    if (\$84 ) begin
      found = \$signature__data [15:0];
    end
    if (\$89 ) begin
      found = \$signature__data$34 [15:0];
    end
    if (\$94 ) begin
      found = \$signature__data$33 [15:0];
    end
    if (\$99 ) begin
      found = \$signature__data$49 [15:0];
    end
    if (\$104 ) begin
      found = \$signature__data$48 [15:0];
    end
    if (\$109 ) begin
      found = \$signature__data$64 [15:0];
    end
    if (\$114 ) begin
      found = \$signature__data$63 [15:0];
    end
    if (\$119 ) begin
      found = \$signature__data$79 [15:0];
    end
    if (\$124 ) begin
      found = \$signature__data$78 [15:0];
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$177  = 1'h0;
    if (\$130 ) begin
      \$177  = 1'h1;
    end
    if (rst) begin
      \$177  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$178  = key_0;
    if (\$130 ) begin
      \$178  = \$133 [32:0];
    end
    if (rst) begin
      \$178  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$179  = 1'h0;
    if (\$139 ) begin
      \$179  = 1'h1;
    end
    if (rst) begin
      \$179  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$180  = key_1;
    if (\$139 ) begin
      \$180  = key_0;
    end
    if (rst) begin
      \$180  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$181  = place_1;
    if (\$139 ) begin
      \$181  = \$141 ;
    end
    if (rst) begin
      \$181  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$182  = root;
    if (sinks_0) begin
      \$182  = stays_0;
    end
    if (\$176 ) begin
      \$182  = 33'h000000000;
    end
    if (rst) begin
      \$182  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$183  = 1'h0;
    if (\$147 ) begin
      \$183  = 1'h1;
    end
    if (rst) begin
      \$183  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$184  = key_2;
    if (\$147 ) begin
      \$184  = key_1;
    end
    if (rst) begin
      \$184  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$185  = place_2;
    if (\$147 ) begin
      \$185  = \$149 ;
    end
    if (rst) begin
      \$185  = 2'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$186  = 1'h0;
    if (\$155 ) begin
      \$186  = 1'h1;
    end
    if (rst) begin
      \$186  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$187  = key_3;
    if (\$155 ) begin
      \$187  = key_2;
    end
    if (rst) begin
      \$187  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$188  = place_3;
    if (\$155 ) begin
      \$188  = \$157 ;
    end
    if (rst) begin
      \$188  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$189  = 1'h0;
    if (\$163 ) begin
      \$189  = 1'h1;
    end
    if (rst) begin
      \$189  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$190  = key_4;
    if (\$163 ) begin
      \$190  = key_3;
    end
    if (rst) begin
      \$190  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$191  = place_4;
    if (\$163 ) begin
      \$191  = \$165 ;
    end
    if (rst) begin
      \$191  = 4'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$192  = 1'h0;
    if (\$171 ) begin
      \$192  = 1'h1;
    end
    if (rst) begin
      \$192  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$193  = stays_5;
    if (\$171 ) begin
      \$193  = key_4;
    end
    if (rst) begin
      \$193  = 33'h000000000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$194  = place_5;
    if (\$171 ) begin
      \$194  = \$173 ;
    end
    if (rst) begin
      \$194  = 5'h00;
    end
  end
  assign key_5 = stays_5;
  assign number = \$72 [5:0];
  assign \$7  = 1'h1;
  assign \$8  = 3'h2;
  assign \$9  = 4'h3;
  assign \$12  = 1'h1;
  assign \$13  = 3'h2;
  assign \$18 [0] = place_1;
  assign \$18 [1] = 1'h1;
  assign \$23 [0] = place_1;
  assign \$23 [1] = 1'h1;
  assign \$30  = place_1;
  assign \$31 [1:0] = place_2;
  assign \$31 [2] = 1'h1;
  assign \$36 [1:0] = place_2;
  assign \$36 [2] = 1'h1;
  assign \$43  = place_2[0];
  assign \$44 [2:0] = place_3;
  assign \$44 [3] = 1'h1;
  assign \$49 [2:0] = place_3;
  assign \$49 [3] = 1'h1;
  assign \$56  = place_3[0];
  assign \$57 [3:0] = place_4;
  assign \$57 [4] = 1'h1;
  assign \$62 [3:0] = place_4;
  assign \$62 [4] = 1'h1;
  assign \$69  = place_4[0];
  assign \$71  = place_5[0];
  assign \$73  = \$72 [5:0];
  assign \$75  = { 1'h0, \$72 [5:1] };
  assign \$80  = { 1'h0, \$72 [5:1] };
  assign \$83  = \$72 [0];
  assign \$85  = { 2'h0, \$72 [5:2] };
  assign \$90  = { 2'h0, \$72 [5:2] };
  assign \$93  = \$72 [0];
  assign \$95  = { 3'h0, \$72 [5:3] };
  assign \$100  = { 3'h0, \$72 [5:3] };
  assign \$103  = \$72 [0];
  assign \$105  = { 4'h0, \$72 [5:4] };
  assign \$110  = { 4'h0, \$72 [5:4] };
  assign \$113  = \$72 [0];
  assign \$115  = { 5'h00, \$72 [5] };
  assign \$120  = { 5'h00, \$72 [5] };
  assign \$123  = \$72 [0];
  assign \$126  = { 15'h0000, score, 16'h0000 };
  assign { \$127 [46:33], \$127 [31:0] } = { \$126 [46:33], \$126 [31:0] };
  assign \$127 [32] = 1'h1;
  assign \$131  = { 15'h0000, score, 16'h0000 };
  assign { \$132 [46:33], \$132 [31:0] } = { \$131 [46:33], \$131 [31:0] };
  assign \$132 [32] = 1'h1;
  assign \$134  = 1'h1;
  assign \$135  = 3'h2;
  assign \$140  = 1'h0;
  assign \$142 [0] = place_1;
  assign \$142 [1] = 1'h1;
  assign \$148  = { place_1, 1'h0 };
  assign \$150 [1:0] = place_2;
  assign \$150 [2] = 1'h1;
  assign \$156  = { place_2, 1'h0 };
  assign \$158 [2:0] = place_3;
  assign \$158 [3] = 1'h1;
  assign \$164  = { place_3, 1'h0 };
  assign \$166 [3:0] = place_4;
  assign \$166 [4] = 1'h1;
  assign \$172  = { place_4, 1'h0 };
  assign \$174  = \$72 [5:0];
  assign \$141  = goes_right_0;
endmodule
